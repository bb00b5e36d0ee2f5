//! Where GPU instances fit on a card, and which place the driver takes when it may choose.

use baton_sim_wire::Placement;

use crate::profile::{GpuProfile, MigTable};

/// The places where another instance of `profile` fits beside those that are there (profile index and placement).
pub fn possible(table: &MigTable, there: &[(u32, Placement)], profile: &GpuProfile) -> Vec<Placement> {
    let others = |index: u32| there.iter().filter(|(other, _)| *other == index).count() as u32;
    let media_taken = there.iter().any(|(index, _)| table.by_index(*index).is_some_and(GpuProfile::has_media));
    if others(profile.index) >= profile.most || (profile.has_media() && media_taken) {
        return Vec::new();
    }
    let placements = profile.starts.iter().map(|start| Placement { start: *start, size: profile.size });
    placements.filter(|new| !there.iter().any(|(_, old)| old.overlaps(*new))).collect()
}

/// The place that the driver takes: where the fewest other placements are lost, the lowest of those.
///
/// This gives the three orders of creation that NVIDIA's MIG user guide shows for an A100 (`devices.md` §1.6); what a real
/// driver weighs is not published.
pub fn choose(table: &MigTable, there: &[(u32, Placement)], profile: &GpuProfile) -> Option<Placement> {
    let left = |placement: Placement| -> usize {
        let mut after = there.to_vec();
        after.push((profile.index, placement));
        table.profiles.iter().map(|other| possible(table, &after, other).len()).sum()
    };
    // `max_by_key` takes the last of equals, so the lowest comes last.
    possible(table, there, profile).into_iter().rev().max_by_key(|placement| left(*placement))
}

/// The number of a GPU instance: its place in the binary tree over the card's slices of memory (open-gpu-kernel-modules,
/// `kmigmgr_ga100.c`). 0 is the whole card, 1 and 2 its halves, 3 to 6 its quarters, 7 to 14 the slices of eight.
pub fn gpu_instance_id(memory_slices: u32, placement: Placement) -> u32 {
    let parts = memory_slices / placement.size.max(1);
    parts - 1 + placement.start / placement.size.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Model;

    fn table(word: &str) -> &'static MigTable {
        Model::of_word(word).and_then(|model| model.mig).expect("a model with MIG")
    }

    /// Makes instances by their `nvidia-smi` numbers; the GPU instance numbers, `None` where one did not fit.
    fn made(table: &MigTable, ids: &[u32]) -> Vec<Option<u32>> {
        let mut there = Vec::new();
        ids.iter()
            .map(|id| {
                let profile = table.by_id(*id).expect("a profile");
                let placement = choose(table, &there, profile)?;
                there.push((profile.index, placement));
                Some(gpu_instance_id(table.memory_slices, placement))
            })
            .collect()
    }

    #[test]
    fn the_orders_of_the_user_guide_come_out() {
        let a100 = table("a100-40");
        assert_eq!(made(a100, &[19, 19, 14, 9]), [Some(13), Some(11), Some(3), None]);
        assert_eq!(made(a100, &[9, 19, 14, 19]), [Some(2), Some(7), Some(4), Some(8)]);
        assert_eq!(made(a100, &[14, 19, 19, 19, 19, 19]), [5, 13, 7, 8, 9, 10].map(Some));
    }

    /// Whether the layout can be placed in some order and place.
    fn feasible(table: &MigTable, there: &[(u32, Placement)], ids: &[u32]) -> bool {
        let Some((id, rest)) = ids.split_first() else { return true };
        let profile = table.by_id(*id).expect("a profile");
        possible(table, there, profile).into_iter().any(|placement| {
            let mut after = there.to_vec();
            after.push((profile.index, placement));
            feasible(table, &after, rest)
        })
    }

    #[test]
    fn layouts_that_fit_and_layouts_that_do_not() {
        // 0: 7g, 5: 4g, 9: 3g, 14: 2g, 15: 1g with double memory, 19: 1g, 20: 1g with media.
        let h100 = table("h100");
        let fits: [&[u32]; 13] = [
            &[9, 9],
            &[5, 9],
            &[5, 19, 19, 19],
            &[5, 14, 19],
            &[9, 14, 14],
            &[9, 14, 19, 19],
            &[14, 14, 14, 19],
            &[14, 14, 14, 20],
            &[19; 7],
            &[15; 4],
            &[15, 15, 15, 19],
            &[15, 15, 9],
            &[9, 19, 19, 19, 19],
        ];
        for layout in fits {
            assert!(feasible(h100, &[], layout), "{layout:?}");
        }
        let does_not: [&[u32]; 8] = [
            &[9, 9, 19],
            &[14, 14, 14, 19, 19],
            &[19; 8],
            &[0, 19],
            &[20, 20],
            &[5, 5],
            &[5, 9, 19],
            &[15, 15, 15, 15, 19],
        ];
        for layout in does_not {
            assert!(!feasible(h100, &[], layout), "{layout:?}");
        }
    }

    /// All layouts to which nothing can be added, as sorted lists of profile and start.
    fn maximal(table: &MigTable, ids: &[u32]) -> Vec<Vec<(u32, u32)>> {
        let (mut found, mut open) = (Vec::new(), vec![Vec::<(u32, Placement)>::new()]);
        while let Some(there) = open.pop() {
            let mut more = false;
            for id in ids {
                let profile = table.by_id(*id).expect("a profile");
                for placement in possible(table, &there, profile) {
                    more = true;
                    // In ascending order, so that each layout is met once.
                    if there.last().is_none_or(|(_, last)| last.start < placement.start) {
                        open.push([there.clone(), vec![(profile.index, placement)]].concat());
                    }
                }
            }
            if !more {
                found.push(there.iter().map(|(index, placement)| (*index, placement.start)).collect());
            }
        }
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn there_are_nineteen_full_layouts_of_a_card_with_seven_slices_and_five_of_one_with_four() {
        assert_eq!(maximal(table("h100"), &[19, 14, 9, 5, 0]).len(), 19);
        assert_eq!(maximal(table("a30"), &[14, 5, 0]).len(), 5);
    }

    #[test]
    fn instances_are_numbered_by_where_they_lie() {
        let id = |start, size| gpu_instance_id(8, Placement { start, size });
        assert_eq!((id(0, 8), id(0, 4), id(4, 4)), (0, 1, 2));
        assert_eq!((id(0, 2), id(2, 2), id(4, 2), id(6, 2)), (3, 4, 5, 6));
        assert_eq!((id(0, 1), id(6, 1)), (7, 13));
        let a30 = |start, size| gpu_instance_id(4, Placement { start, size });
        assert_eq!((a30(0, 4), a30(2, 2), a30(0, 1), a30(3, 1)), (0, 2, 3, 6));
    }
}
