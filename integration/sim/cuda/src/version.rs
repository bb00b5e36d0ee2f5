//! The driver's version, and what each can do (`cuda-checkpoint` README and release notes).

use baton_sim_model::cuda_version;

/// `580.95.05`, to be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverVersion(Vec<u32>);

impl DriverVersion {
    /// Reads what a file name or the hardware says; what is no number counts as 0.
    pub fn of(text: &str) -> DriverVersion {
        DriverVersion(text.split('.').map(|part| part.parse().unwrap_or(0)).collect())
    }

    fn at_least(&self, first: &[u32]) -> bool {
        self.0.as_slice() >= first
    }

    /// As `cuDriverGetVersion` gives it: 1000 × major + 10 × minor.
    pub fn cuda(&self) -> i32 {
        self.0.first().and_then(|branch| cuda_version(*branch)).unwrap_or(0)
    }

    /// The checkpoint API is there: since 570.
    pub fn has_checkpoint(&self) -> bool {
        self.at_least(&[570])
    }

    /// A restore takes a map of cards: since 580.
    pub fn has_gpu_pairs(&self) -> bool {
        self.at_least(&[580])
    }

    /// A process that can open only some of the machine's cards can be checkpointed: since 575.57.08
    /// (NVIDIA/cuda-checkpoint#24).
    pub fn has_partial_passthrough(&self) -> bool {
        self.at_least(&[575, 57, 8])
    }

    /// Processes can be launched as a job, which `CUDA_CHECKPOINT_JOB_FILE` names: since 590.44.01.
    pub fn has_jobs(&self) -> bool {
        self.at_least(&[590, 44, 1])
    }

    /// Memory opened by an IPC handle can be checkpointed in a job: since 610.
    pub fn has_ipc_checkpoint(&self) -> bool {
        self.at_least(&[610])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ability_begins_with_its_version() {
        let abilities = |text| {
            let version = DriverVersion::of(text);
            [
                version.has_checkpoint(),
                version.has_partial_passthrough(),
                version.has_gpu_pairs(),
                version.has_jobs(),
                version.has_ipc_checkpoint(),
            ]
        };
        let since = |count: usize| std::array::from_fn(|index| index < count);
        assert_eq!(abilities("565.57.01"), since(0));
        assert_eq!(abilities("570.86.10"), since(1));
        assert_eq!(abilities("575.51.03"), since(1));
        assert_eq!(abilities("575.57.08"), since(2));
        assert_eq!(abilities("580.65.06"), since(3));
        assert_eq!(abilities("590.44.00"), since(3));
        assert_eq!(abilities("590.44.01"), since(4));
        assert_eq!(abilities("610.10"), since(5));
    }

    #[test]
    fn each_branch_speaks_its_cuda() {
        for (text, cuda) in [("550.54.14", 12040), ("570.86.10", 12080), ("580.95.05", 13000), ("610.10", 13030)] {
            assert_eq!(DriverVersion::of(text).cuda(), cuda, "{text}");
        }
    }
}
