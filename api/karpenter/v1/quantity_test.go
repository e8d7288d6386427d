package v1

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestA26_LimitsAreAlwaysRead(t *testing.T) {
	tests := []struct{ text, want string }{
		{`"1000"`, "1k"},
		{`50`, "50"},
		{`"1000Gi"`, "1000Gi"},
		{`".5"`, "500m"},
		{`"1e5"`, "100e3"},
		{`null`, "0"},
		{`"1e1.5"`, "-1"},        // accepted by the API server's pattern
		{`"1e-999999999"`, "-1"}, // takes minutes to read
		{`"1e999999999"`, "-1"},  // cannot be counted with
		{`"lots"`, "-1"},         // cannot happen, unless the CRD is another one
		{`{"a": 1}`, "-1"},       // the same
		{`""`, "-1"},             // the same
		{`"` + strings.Repeat("9", 100) + `"`, "-1"},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			var pool NodePool
			var claim NodeClaim
			if err := json.Unmarshal([]byte(`{"spec":{"limits":{"cpu":`+test.text+`}}}`), &pool); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(`{"spec":{"resources":{"requests":{"cpu":`+test.text+`}}}}`), &claim); err != nil {
				t.Fatal(err)
			}
			limit, request := pool.Spec.Limits["cpu"], claim.Spec.Resources.Requests["cpu"]
			want := resource.MustParse(test.want)
			if limit.Cmp(want) != 0 || request.Cmp(want) != 0 {
				t.Errorf("limit %s, request %s, want %s", limit.String(), request.String(), test.want)
			}
		})
	}
}

func TestLimits_RefuseWhatIsNoObject(t *testing.T) {
	var limits Limits
	if err := json.Unmarshal([]byte(`[1]`), &limits); err == nil {
		t.Error("a list is read as limits")
	}
	var requirements ResourceRequirements
	if err := json.Unmarshal([]byte(`{"requests": 5}`), &requirements); err == nil {
		t.Error("a number is read as requests")
	}
	if err := json.Unmarshal([]byte(`{}`), &requirements); err != nil || requirements.Requests != nil {
		t.Error(err, requirements)
	}
	if err := json.Unmarshal([]byte(`null`), &limits); err != nil || limits != nil {
		t.Error(err, limits)
	}
}

func FuzzQuantity(f *testing.F) {
	for _, text := range []string{"1", "100m", "1.5Gi", "1e1.5", "1e-999999999", "-5", "+.5Ki", "9e99"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := ParseQuantity(text)
		if err != nil {
			return
		}
		amount.Cmp(resource.MustParse("1.5"))
		amount.Value() // the fuzzer complains of what takes seconds
	})
}
