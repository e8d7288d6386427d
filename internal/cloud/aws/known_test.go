package aws_test

import (
	"testing"
	"time"

	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/simaws"
)

// The dashboard says of GovCloud and China that prices are estimates, and whose.
func TestTheDashboardNamesPricesOfAnotherRegion(t *testing.T) {
	for region, want := range map[string]string{"us-gov-west-1": "on-demand, price unknown: estimate from us-east-1", "us-west-2": "on-demand, built in"} {
		known := aws.New(aws.Options{Region: region, Clock: simaws.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}).Known()
		if got := known.OnDemandName(); got != want {
			t.Errorf("%s: %q, want %q", region, got, want)
		}
	}
}
