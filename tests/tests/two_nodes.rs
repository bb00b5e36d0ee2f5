//! Two nodes, each with a real containerd and cards of its own, share a registry and nothing else (point 1).

use baton_tests::job::IMAGE;
use baton_tests::machine::Machine;

#[test]
fn two_nodes_have_their_own_containerd_and_cards_and_share_a_registry_alone() {
    let a = Machine::start("nodes-a", "h100x2");
    let b = Machine::start_unlike(&a, "nodes-b", "h100");
    for node in [&a, &b] {
        assert!(node.containerd() >= (2, 0), "{:?}", node.containerd());
        let plugins = node.ok(&["sh", "-c", "containerd-shim-baton-v2 -v; baton --version"]);
        assert!(plugins.contains("baton"), "{plugins}");
    }
    let (of_a, of_b) = (a.cards(), b.cards());
    assert_eq!((of_a.len(), of_b.len()), (2, 1));
    assert!(of_a.iter().chain(&of_b).all(|card| card.model == "NVIDIA H100 80GB HBM3"));
    for card in &of_a {
        assert_ne!(card.uuid, of_b[0].uuid);
        assert_ne!(card.pci_bus_id, of_b[0].pci_bus_id);
    }
    let image = &a.reference("1");
    a.ok(&["ctr", "image", "tag", IMAGE, image]);
    a.ok(&["ctr", "image", "push", image]);
    assert!(!b.ok(&["ctr", "image", "ls", "-q"]).contains(image.as_str()), "it came without the registry");
    b.ok(&["ctr", "image", "pull", image]);
}
