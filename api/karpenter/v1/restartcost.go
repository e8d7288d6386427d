package v1

import (
	"fmt"
	"math"
	"strconv"
)

// RestartCost is what RestartCostAnnotationKey among annotations of a pool or a pod says, in dollars; given is false without it. What
// is no amount is an error, and counts as not given.
func RestartCost(annotations map[string]string) (cost float64, given bool, err error) {
	text, ok := annotations[RestartCostAnnotationKey]
	if !ok {
		return 0, false, nil
	}
	cost, err = strconv.ParseFloat(text, 64)
	if err != nil || !(cost >= 0) || math.IsInf(cost, 0) {
		return 0, false, fmt.Errorf("annotation %s is %q; give dollars for each restart, 0 or more, such as \"0.10\"; until then the default counts",
			RestartCostAnnotationKey, text)
	}
	return cost, true, nil
}
