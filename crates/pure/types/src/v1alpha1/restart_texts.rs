//! What a restart in place does, in words: the steps of a PodRestart, and events about its pod.

use super::{PodRestartSpec, Rung};

impl PodRestartSpec {
    /// What it begins with.
    pub fn doing(&self) -> String {
        self.rung().doing(self.container_name.as_deref())
    }

    /// What it does when everything has ended.
    pub fn starting(&self) -> &'static str {
        self.rung().starting()
    }

    /// What it did.
    pub fn done(&self) -> String {
        self.rung().done(self.container_name.as_deref())
    }
}

impl Rung {
    /// What a restart by this rung begins with; `container` is the one that alone is restarted.
    pub fn doing(self, container: Option<&str>) -> String {
        if let Some(name) = container {
            return format!("Restarting container {name}");
        }
        let what = match self {
            Rung::Container => "Restarting the running containers",
            Rung::Containers => "Restarting all containers in the same sandbox",
            Rung::Pod => "Restarting the whole pod in place",
            Rung::Recreate | Rung::Reschedule | Rung::Rollback => "Replacing the pod",
        };
        what.to_owned()
    }

    /// What a restart by this rung does when everything has ended.
    pub fn starting(self) -> &'static str {
        match self {
            Rung::Containers => {
                "everything has ended: the containers are starting in the same sandbox"
            }
            Rung::Pod => "everything has ended: the containers are starting in a new sandbox",
            Rung::Container | Rung::Recreate | Rung::Reschedule | Rung::Rollback => {
                "everything has ended: the containers are starting"
            }
        }
    }

    /// What a restart by this rung did; `container` is the one that alone was restarted.
    pub fn done(self, container: Option<&str>) -> String {
        if let Some(name) = container {
            return format!("container {name} is running again");
        }
        let what = match self {
            Rung::Container => "the containers are running again",
            Rung::Containers => "all containers are running again in the same sandbox",
            Rung::Pod => "all containers are running again in a new sandbox",
            Rung::Recreate | Rung::Reschedule | Rung::Rollback => "the pod was replaced",
        };
        what.to_owned()
    }
}
