//! Whether nodes may still be added. A thread that starts a node's agent runs on when who asked for
//! it is gone: without this, an agent could begin after the engine has ended all that it found.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;

/// What stands between whoever adds nodes and an engine that stops. Clones are one.
#[derive(Clone)]
pub struct NodeAdditionGate {
    is_open: Arc<Mutex<bool>>,
}

impl NodeAdditionGate {
    /// Nodes are added.
    pub fn open() -> Self {
        Self { is_open: Arc::new(Mutex::new(true)) }
    }

    /// Adds a node, unless the engine stops. Blocks while another one is added.
    pub fn pass<T>(&self, add: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        // held until it is there: who closes the gate finds it
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_open {
            bail!("the engine stops");
        }
        add()
    }

    /// From now on none is added. Blocks until the one that is being added is there.
    pub fn close(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_being_added_is_waited_for_and_none_begins_after_that() {
        let gate = NodeAdditionGate::open();
        let (begun, seen) = std::sync::mpsc::channel();
        let (go_on, told) = std::sync::mpsc::channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        let say = |what: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(what)
        };
        let (adder, added) = (gate.clone(), say("added"));
        let adding = std::thread::spawn(move || {
            adder.pass(|| {
                begun.send(()).unwrap();
                told.recv().unwrap();
                added();
                Ok(())
            })
        });
        seen.recv().unwrap();
        let (closer, closed) = (gate.clone(), say("closed"));
        let closing = std::thread::spawn(move || {
            closer.close();
            closed();
        });
        go_on.send(()).unwrap();
        adding.join().unwrap().unwrap();
        closing.join().unwrap();
        assert_eq!(*order.lock().unwrap(), ["added", "closed"]);
        let error = gate.pass(|| -> anyhow::Result<()> { panic!("it was added") }).unwrap_err();
        assert_eq!(error.to_string(), "the engine stops");
    }
}
