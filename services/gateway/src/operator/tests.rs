use std::path::Path;

use aip_admission::{ContractView, Directory};
use aip_names::operator;
use aip_wire::{ActionMode, PrincipalId, PrincipalKind};

use super::*;

fn operator() -> Operator {
    let directory = Directory::parse("trust_domain = \"aip.test\"", Path::new("/nowhere")).unwrap();
    let authenticator = Arc::new(Authenticator::new(Arc::new(directory)).unwrap());
    let gateway = Principal::new(PrincipalId::parse("svc:gateway").unwrap(), PrincipalKind::Service);
    Operator::new(authenticator, Arc::new(Catalog::default()), gateway).unwrap()
}

#[tokio::test]
async fn every_verb_is_a_capability_of_the_gateway_that_may_be_performed_twice() {
    let operator = operator();
    assert!(operator.find(&CapabilityId::parse(operator::GATEWAY_REDRIVE).unwrap()).is_some());
    for offered in operator.offered() {
        let (id, offer) = (&offered.capability.id, operator.offer(offered).await.unwrap());
        assert!(id.as_str().starts_with(operator::GATEWAY_VERBS), "{id}");
        let contract = ContractView::of(&offered.capability);
        // a killed replica's order is performed again by another
        assert!(contract.may_run_again(false), "{id}");
        // its effect has no queue
        assert!(contract.supports(ActionMode::Sync) && !contract.supports(ActionMode::Async), "{id}");
        assert!(!contract.supports(ActionMode::Streaming) && !contract.execution.supports_cancel, "{id}");
        assert!(offer.check_output(None).is_err(), "{id} promises an output");
        assert!(offer.check_input(&serde_json::json!({"unknown": 1})).is_err(), "{id}");
        assert_eq!(operator.row(offered).key.contract_hash, offer.contract_hash);
    }
}
