package convert

// filled is a field that both directions write out where the other version says nothing, with the same meaning in both.
type filled struct {
	beta, v1  []string
	byDefault any // what the schema of v1 says, too
}

// The default of the hop limit is not among them. It differs between the versions, and a mistake about it would open the metadata
// service to pods.
var (
	poolFilled = []filled{
		{[]string{"disruption", "expireAfter"}, []string{"template", "spec", "expireAfter"}, defaultExpireAfter},
		{[]string{"disruption", "consolidationPolicy"}, []string{"disruption", "consolidationPolicy"}, policyV1Underutil},
		{[]string{"disruption", "consolidateAfter"}, []string{"disruption", "consolidateAfter"}, defaultConsolidateAfter},
		{[]string{"disruption", "budgets"}, []string{"disruption", "budgets"}, []any{map[string]any{"nodes": defaultBudgetNodes}}},
	}
	classFilled = []filled{
		{[]string{"metadataOptions", "httpEndpoint"}, []string{"metadataOptions", "httpEndpoint"}, "enabled"},
		{[]string{"metadataOptions", "httpProtocolIPv6"}, []string{"metadataOptions", "httpProtocolIPv6"}, "disabled"},
		{[]string{"metadataOptions", "httpTokens"}, []string{"metadataOptions", "httpTokens"}, "required"},
	}
)

// leaveOutBeta takes what was only written out, out of a v1beta1 spec again.
func leaveOutBeta(beta, v1 map[string]any, fields []filled) {
	for _, f := range fields {
		if !holds(v1, f.v1) {
			removeField(beta, f.beta)
		}
	}
}

// leaveOutV1 does that with a v1 spec.
func leaveOutV1(v1, beta map[string]any, fields []filled) {
	for _, f := range fields {
		if !holds(beta, f.beta) && equal(valueAt(v1, f.v1), f.byDefault) {
			removeField(v1, f.v1)
		}
	}
}

// removeField removes a field, and the object that it was in if nothing else is.
func removeField(from map[string]any, path []string) {
	parent := from
	for _, step := range path[:len(path)-1] {
		parent, _ = parent[step].(map[string]any)
	}
	delete(parent, path[len(path)-1])
	if len(path) == 2 && len(parent) == 0 {
		delete(from, path[0])
	}
}
