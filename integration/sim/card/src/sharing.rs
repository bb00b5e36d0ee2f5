//! Allocations that other processes open: they live until their owner and all who opened them have let go.

use baton_sim_wire::Range;

use crate::hardware::{ClientId, Hardware, INVALID_VALUE, Refusal};

impl Hardware {
    /// Lets others open an allocation by `key`; one that is exported already keeps its first key.
    pub fn export(&mut self, client: ClientId, uuid: &str, offset: u64, key: u64) -> Result<u64, Refusal> {
        let place = (self.card_of_own(client, uuid, offset)?, offset);
        let known = self.exported.iter().find(|(_, other)| **other == place).map(|(known, _)| *known);
        let key = known.unwrap_or(key);
        self.exported.insert(key, place);
        Ok(key)
    }

    /// Opens what another process has exported.
    pub fn import(&mut self, client: ClientId, key: u64) -> Result<(usize, Range), Refusal> {
        let unknown = || Refusal::new(INVALID_VALUE, "nothing is exported by that handle");
        let (index, offset) = *self.exported.get(&key).ok_or_else(unknown)?;
        let held = self.accounts[index].ranges.get_mut(&offset).filter(|held| held.owner.is_some());
        let held = held.ok_or_else(unknown)?;
        held.importers.push(client);
        Ok((index, Range { offset, bytes: held.bytes }))
    }

    /// Lets go of what was opened.
    pub fn import_gone(&mut self, client: ClientId, key: u64) -> Result<Vec<(usize, Range)>, Refusal> {
        let unknown = || Refusal::new(INVALID_VALUE, "nothing is opened by that handle");
        let (index, offset) = *self.exported.get(&key).ok_or_else(unknown)?;
        let account = &mut self.accounts[index];
        if account.ranges.get(&offset).is_none_or(|held| !held.importers.contains(&client)) {
            return Err(unknown());
        }
        let gone = account.let_go(|at, held| {
            if at == offset
                && let Some(place) = held.importers.iter().position(|importer| *importer == client)
            {
                held.importers.remove(place);
            }
        });
        Ok(gone.into_iter().map(|range| (index, range)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use baton_sim_wire::RangeWanted;

    const GIB: u64 = 1 << 30;

    #[test]
    fn an_exported_allocation_lives_as_long_as_somebody_has_it_open() {
        let cards = spec::Hardware::from_spec("h100", "a", "580.95.05").expect("valid").cards;
        let first = cards[0].uuid.clone();
        let mut hardware = Hardware::with(cards);
        hardware.claim(1, &[], &[RangeWanted { device: first.clone(), bytes: GIB }]).expect("room");
        assert!(hardware.import(2, 77).is_err(), "nothing is exported yet");
        assert!(hardware.export(2, &first, 0, 77).is_err(), "it is not his");
        assert_eq!(hardware.export(1, &first, 0, 77), Ok(77));
        assert_eq!(hardware.export(1, &first, 0, 78), Ok(77), "it keeps its key");
        let range = Range { offset: 0, bytes: GIB };
        assert_eq!(hardware.import(2, 77), Ok((0, range)));
        assert_eq!(hardware.import(3, 77), Ok((0, range)));
        assert_eq!(hardware.free(1, &first, 0), Ok(Vec::new()));
        assert!(hardware.import(4, 77).is_err(), "its owner has let go");
        assert_eq!(hardware.import_gone(2, 77), Ok(Vec::new()));
        assert!(hardware.import_gone(2, 77).is_err(), "once is enough");
        assert_eq!(hardware.accounts[0].used(), GIB);
        assert_eq!(hardware.release(3), [(0, range)]);
        assert_eq!(hardware.accounts[0].used(), 0);
    }
}
