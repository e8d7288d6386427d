package operator

import (
	"testing"
	"time"

	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/simaws"
)

// The dashboard says of GovCloud and China that prices are estimates, and whose.
func TestTheDashboardNamesPricesOfAnotherRegion(t *testing.T) {
	for region, want := range map[string]string{"us-gov-west-1": "on-demand, price unknown: estimate from us-east-1", "us-west-2": "on-demand, built in"} {
		s := &source{w: &wiring{process: &process{}, provider: aws.New(aws.Options{Region: region, Clock: simaws.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))})}}
		if got := s.About().Prices[0].Name; got != want {
			t.Errorf("%s: %q, want %q", region, got, want)
		}
	}
}
