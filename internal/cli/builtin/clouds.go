package builtin

import (
	"context"

	"karpenter/cloud"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/capi"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
)

// Cloud is a provider as far as commands know it by themselves, without a controller.
type Cloud struct {
	Kind *cloud.Kind
	// Repair are the policies of a controller that repairs nodes and does not reboot them.
	Repair []life.RepairPolicy
	// Load works out what classes of the kind can launch, without network or credentials; nil if only a controller knows.
	Load func(ctx context.Context, q Query) (*Catalogue, error)
}

// Clouds are the providers that commands know; the first is that of whatever names none.
func Clouds() []Cloud {
	first, second := aws.Kind(), capi.Kind()
	return []Cloud{{Kind: &first, Repair: control.RepairPolicies(aws.RepairPolicies(false)), Load: Load}, {Kind: &second}}
}
