package web_test

import (
	"testing"

	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/web"
	"karpenter/test/schema"
)

// TestAnswersAreAsTheirSchemas: what the API answers is what docs/reference/schema says.
func TestAnswersAreAsTheirSchemas(t *testing.T) {
	c := smallCluster(t, sunday)
	c.addPod("late", 100, 100, "")
	h := web.Handler(c, web.Options{})
	v := c.View()
	seen := map[string]bool{}
	for path, kind := range map[string]string{
		"fleet": model.KindLiveFleet, "fleet/nodes": model.KindFleet, "history": model.KindHistory, "pools": model.KindPoolList, "prices": model.KindPriceList, "costs": model.KindCostList,
		"decisions": model.KindDecisionList, "decisions/3": model.KindDecision, "nothing": model.KindError,
		"explain/node/" + v.Nodes[0].World.Name:        model.KindExplanation,
		"explain/nodepool/general":                     model.KindExplanation,
		"explain/pod/" + c.stuck() + "?namespace=shop": model.KindExplanation,
	} {
		seen[kind] = true
		schema.Check(t, kind, get(t, h, "/api/v1/"+path).Body.Bytes())
	}
	for kind := range web.Documents() {
		if !seen[kind] {
			t.Errorf("no document of kind %s was looked at", kind)
		}
	}
	for i, event := range follow(t, listen(t, h).URL+"/api/v1/stream", 2) {
		schema.Check(t, []string{model.KindLiveFleet, model.KindDecision}[i], []byte(event))
		c.ledger.Add(ledger.Entry{Kind: ledger.Plan, Summary: "one more", Why: []why.Reason{why.New(why.Chosen, "it is cheapest")}})
	}
}

// A cluster in which there is nothing has documents too.
func TestAnswersOfAnEmptyClusterAreAsTheirSchemas(t *testing.T) {
	h := web.Handler(newCluster(sunday), web.Options{})
	for path, kind := range map[string]string{"fleet": model.KindLiveFleet, "history": model.KindHistory, "pools": model.KindPoolList, "prices": model.KindPriceList, "decisions": model.KindDecisionList} {
		schema.Check(t, kind, get(t, h, "/api/v1/"+path).Body.Bytes())
	}
}
