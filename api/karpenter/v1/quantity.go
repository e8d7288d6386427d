package v1

import (
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantityLength bounds the text of an amount; the largest sensible one has some twenty characters.
const maxQuantityLength = 64

// wildExponent matches amounts such as 1e-999999999, which the API server accepts and whose arithmetic takes minutes.
var wildExponent = regexp.MustCompile(`[eE][-+]?[0-9]*[0-9]{3}`)

// ParseQuantity reads an amount such as 100m or 1Gi in bounded time.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > maxQuantityLength || wildExponent.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%.64q is not an amount that can be used: write for example 100m, 4 or 1Gi", text)
	}
	amount, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%q is not an amount: write for example 100m, 4 or 1Gi", text)
	}
	return amount, nil
}

// unreadable stands for an amount that the API server accepted and that means nothing, such as 1e1.5. It is negative, so that a
// limit allows nothing and Validate names it. An error instead would hide all objects of the kind from a watch.
func unreadable() resource.Quantity { return *resource.NewQuantity(-1, resource.DecimalSI) }

// decodeAmounts reads amounts by resource name. It fails only on what is not an object at all.
func decodeAmounts(data []byte) (corev1.ResourceList, error) {
	var values map[corev1.ResourceName]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("amounts by resource name must be an object: %w", err)
	}
	if values == nil {
		return nil, nil
	}
	amounts := make(corev1.ResourceList, len(values))
	for name, value := range values {
		text := string(value)
		if text == "null" {
			text = "0"
		}
		var quoted string
		if json.Unmarshal(value, &quoted) == nil && quoted != "" {
			text = quoted
		}
		amount, err := ParseQuantity(text)
		if err != nil {
			amount = unreadable()
		}
		amounts[name] = amount
	}
	return amounts, nil
}

// UnmarshalJSON reads limits. An amount that cannot be read becomes a negative one.
func (l *Limits) UnmarshalJSON(data []byte) error {
	amounts, err := decodeAmounts(data)
	if err != nil {
		return err
	}
	*l = Limits(amounts)
	return nil
}

// UnmarshalJSON reads requests. An amount that cannot be read becomes a negative one.
func (r *ResourceRequirements) UnmarshalJSON(data []byte) error {
	var fields struct {
		Requests json.RawMessage `json:"requests"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("resources must be an object: %w", err)
	}
	if len(fields.Requests) == 0 {
		*r = ResourceRequirements{}
		return nil
	}
	amounts, err := decodeAmounts(fields.Requests)
	if err != nil {
		return err
	}
	r.Requests = amounts
	return nil
}
