//! Branches of the driver.

/// The CUDA version that each branch of the driver speaks, as `cuDriverGetVersion` gives it (NVIDIA's release notes of the
/// toolkit, table of driver versions).
const BRANCHES: [(u32, i32); 10] = [
    (550, 12040),
    (555, 12050),
    (560, 12060),
    (565, 12070),
    (570, 12080),
    (575, 12090),
    (580, 13000),
    (590, 13010),
    (595, 13020),
    (610, 13030),
];

/// The CUDA version of a branch: that of the newest branch here which is not newer. `None` for one older than all.
pub fn cuda_version(branch: u32) -> Option<i32> {
    BRANCHES.iter().rev().find(|(first, _)| *first <= branch).map(|(_, cuda)| *cuda)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_between_two_speaks_the_cuda_of_the_older() {
        let versions = [549, 550, 554, 570, 585, 610, 999].map(cuda_version);
        let wanted = [None, Some(12040), Some(12040), Some(12080), Some(13000), Some(13030), Some(13030)];
        assert_eq!(versions, wanted);
    }
}
