package simaws

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	subnetA = "subnet-0abc123"
	subnetB = "subnet-0def456"
	subnetC = "subnet-0789abc"
)

func TestAllocationStrategies(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	overrides := []string{"m5.4xlarge@" + subnetA + "!1", "m5.large@" + subnetB + "!3", "m5.xlarge@" + subnetA + "!2"}
	with := func(pairs []string, key, value string) []string { return append(pairs, key, value) }
	for _, tc := range []struct{ capacityType, strategy, want string }{
		{"on-demand", "lowest-price", "m5.large"},
		{"on-demand", "prioritized", "m5.4xlarge"},
		{"spot", "lowest-price", "m5.large"},
		// Capacity may outweigh the price of the next size, but not of three more.
		{"spot", "price-capacity-optimized", "m5.large or m5.xlarge"},
		{"spot", "capacity-optimized-prioritized", "m5.4xlarge"},
	} {
		key := "OnDemandOptions.AllocationStrategy"
		if tc.capacityType == "spot" {
			key = "SpotOptions.AllocationStrategy"
		}
		body := w.must("ec2", "CreateFleet", with(fleetPairs("tpl", tc.capacityType, 1, overrides...), key, tc.strategy)...)
		if got := pickFirst(body, "instanceType"); !slices.Contains(strings.Split(tc.want, " or "), got) || len(launched(body)) != 1 {
			t.Errorf("%s %s chose %s, want %s", tc.capacityType, tc.strategy, got, tc.want)
		}
	}
	body := w.must("ec2", "CreateFleet", with(fleetPairs("tpl", "spot", 6, overrides...), "SpotOptions.AllocationStrategy", "diversified")...)
	if got := strings.Count(body, "<instanceIds>"); got != 3 {
		t.Errorf("diversified used %d overrides of 3", got)
	}
	w.refused("InvalidParameterValue", "CreateFleet", with(fleetPairs("tpl", "spot", 1, overrides...), "SpotOptions.AllocationStrategy", "cheapest")...)
}

func TestPartialFulfilment(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	for _, r := range []StockRule{
		{Type: "m5.*", Zone: "*", CapacityType: "spot", Count: 1},
		{Type: "c5.large", Zone: "us-west-2a", CapacityType: "spot", Count: 0, Code: "MaxSpotInstanceCountExceeded", Message: "no more"},
	} {
		if err := w.SetStock(r); err != nil {
			t.Fatal(err)
		}
	}
	body := w.fleet("spot", 5, "m5.large@"+subnetA, "m5.large@"+subnetB, "c5.large@"+subnetA)
	if got := launched(body); len(got) != 2 {
		t.Errorf("launched %d, want the 2 that there are", len(got))
	}
	if got := pickAll(body, "errorCode"); !slices.Equal(got, []string{"InsufficientInstanceCapacity", "InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded"}) {
		t.Errorf("errors %v", got)
	}
	// On-demand is another pool, and what is given back can be had again.
	if got := launched(w.fleet("on-demand", 2, "m5.large@"+subnetA)); len(got) != 2 {
		t.Errorf("on-demand launched %d", len(got))
	}
	w.must("ec2", "TerminateInstances", "InstanceId.1", launched(body)[0])
	if got := launched(w.fleet("spot", 1, "m5.large@"+subnetA, "m5.large@"+subnetB)); len(got) != 1 {
		t.Error("a returned instance did not refill its pool")
	}
	w.ClearStock()
	if got := launched(w.fleet("spot", 9, "m5.large@"+subnetA)); len(got) != 9 {
		t.Errorf("without rules launched %d", len(got))
	}
}

func TestStockRefills(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	if err := w.SetStock(StockRule{Type: "m5.large", Count: 1, Refill: Duration(3 * time.Minute)}); err != nil {
		t.Fatal(err)
	}
	got := func() int { return len(launched(w.fleet("on-demand", 1, "m5.large@"+subnetA))) }
	if got() != 1 || got() != 0 {
		t.Fatal("the pool should give one instance and no more")
	}
	w.advance(2 * time.Minute)
	if got() != 0 {
		t.Error("refilled too early")
	}
	w.advance(time.Minute)
	if got() != 1 {
		t.Error("not refilled")
	}
}

// TestMinimumOrNothing is what MinTargetCapacity promises.
func TestMinimumOrNothing(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	if err := w.SetStock(StockRule{Count: 2}); err != nil {
		t.Fatal(err)
	}
	body := w.must("ec2", "CreateFleet", append(fleetPairs("tpl", "on-demand", 3, "m5.large@"+subnetA), "OnDemandOptions.MinTargetCapacity", "3")...)
	if got := launched(body); len(got) != 0 || pickFirst(body, "errorCode") == "" {
		t.Errorf("launched %v below the minimum", got)
	}
}

func TestClientToken(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	pairs := append(fleetPairs("tpl", "spot", 2, "m5.large@"+subnetA), "ClientToken", "claim-1")
	first, second := w.must("ec2", "CreateFleet", pairs...), w.must("ec2", "CreateFleet", pairs...)
	if !slices.Equal(launched(first), launched(second)) || pickFirst(first, "fleetId") != pickFirst(second, "fleetId") {
		t.Error("the same token gave different answers")
	}
	if n := strings.Count(w.must("ec2", "DescribeInstances"), "<instanceId>"); n != 2 {
		t.Errorf("%d instances, want 2", n)
	}
	pairs[3] = "3"
	w.refused("IdempotentParameterMismatch", "CreateFleet", pairs...)
}

func TestLaunchErrorsPerOverride(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	body := w.fleet("on-demand", 1, "m6g.large@"+subnetA, "none.large@"+subnetA, "m5.large@subnet-0", "p6-b300.48xlarge@"+subnetC)
	if got, want := pickAll(body, "errorCode"), []string{"InvalidParameterValue", "InvalidParameterValue", "InvalidSubnetID.NotFound", "Unsupported"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	w.refused("InvalidLaunchTemplateName.NotFoundException", "CreateFleet", fleetPairs("none", "spot", 1, "m5.large@"+subnetA)...)
	w.launchTemplate("bad-profile", "LaunchTemplateData.IamInstanceProfile.Name", "ghost")
	body = w.must("ec2", "CreateFleet", fleetPairs("bad-profile", "spot", 1, "m5.large@"+subnetA)...)
	if got := pickFirst(body, "errorMessage"); !strings.Contains(got, "Invalid IAM Instance Profile name") {
		t.Errorf("message %q", got)
	}
}

func TestSubnetRunsOutOfAddresses(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	w.must("ec2", "DescribeVpcs")
	s := w.st.Accounts[DefaultAccount].Regions["us-west-2"].Subnets.get(subnetA)
	s.CIDR = "192.168.0.0/28"
	body := w.fleet("on-demand", 20, "m5.large@"+subnetA)
	if got := launched(body); len(got) != 11 || pickFirst(body, "errorCode") != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("launched %d with %s", len(got), pickFirst(body, "errorCode"))
	}
	w.must("ec2", "TerminateInstances", "InstanceId.1", launched(body)[0])
	if free := pickFirst(w.must("ec2", "DescribeSubnets", "SubnetId.1", subnetA), "availableIpAddressCount"); free != "1" {
		t.Errorf("%s addresses free after one was given back", free)
	}
}

func TestQuotas(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	w.SetQuotas(Quotas{OnDemandVCPUs: 4, SpotVCPUs: 2, LaunchTemplates: 1, InstanceProfiles: 1})
	if got := pickFirst(w.fleet("on-demand", 3, "m5.large@"+subnetA), "errorCode"); got != "VcpuLimitExceeded" {
		t.Errorf("on-demand: %s", got)
	}
	if got := pickFirst(w.fleet("spot", 2, "m5.large@"+subnetA), "errorCode"); got != "MaxSpotInstanceCountExceeded" {
		t.Errorf("spot: %s", got)
	}
	w.refused("MaxTemplateLimitExceeded", "CreateLaunchTemplate", "LaunchTemplateName", "more", "LaunchTemplateData.KeyName", "k")
	if status, body := w.send("iam", "CreateInstanceProfile", "InstanceProfileName", "more"); status != 409 || pickFirst(body, "Code") != "LimitExceeded" {
		t.Errorf("profiles: %d %s", status, body)
	}
}

func TestInterruption(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	id := launched(w.fleet("spot", 1, "m5.large@"+subnetA))[0]
	w.advance(time.Minute)
	w.messages()
	if err := w.Rebalance("", true, id); err != nil {
		t.Fatal(err)
	}
	kinds := func() []string {
		var out []string
		for _, m := range w.messages() {
			_, rest, _ := strings.Cut(m, `"detail-type":"`)
			kind, _, _ := strings.Cut(rest, `"`)
			if _, state, ok := strings.Cut(m, `"state":"`); ok {
				kind += " " + strings.SplitN(state, `"`, 2)[0]
			}
			out = append(out, kind)
			if !strings.Contains(m, id) || !strings.Contains(m, `"account":"111122223333"`) || !strings.Contains(m, `"region":"us-west-2"`) {
				t.Errorf("message %s", m)
			}
		}
		return out
	}
	if got := kinds(); !slices.Equal(got, []string{"EC2 Instance Rebalance Recommendation"}) {
		t.Errorf("at first: %v", got)
	}
	w.advance(DefaultTiming.Rebalance)
	if got := kinds(); !slices.Equal(got, []string{"EC2 Spot Instance Interruption Warning"}) || w.stateOf(id) != "running" {
		t.Errorf("then: %v, %s", got, w.stateOf(id))
	}
	w.advance(2*time.Minute - time.Second)
	if w.stateOf(id) != "running" {
		t.Error("reclaimed before the notice was over")
	}
	w.advance(time.Second)
	if got := kinds(); !slices.Equal(got, []string{"EC2 Instance State-change Notification shutting-down"}) || w.stateOf(id) != "shutting-down" {
		t.Errorf("at last: %v, %s", got, w.stateOf(id))
	}
	if err := w.SendHealthEvent("", "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", id); err != nil {
		t.Fatal(err)
	}
	if got := kinds(); !slices.Equal(got, []string{"AWS Health Event"}) {
		t.Errorf("health: %v", got)
	}
	if err := w.Interrupt("", "i-none"); err == nil {
		t.Error("an unknown instance was interrupted")
	}
}

func TestStorm(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	w.fleet("spot", 20, "m5.large@"+subnetA)
	w.fleet("spot", 20, "m5.large@"+subnetB)
	price := func() string {
		return pickFirst(w.must("ec2", "DescribeSpotPriceHistory", "InstanceType.1", "m5.large", "AvailabilityZone", "us-west-2a"), "spotPrice")
	}
	before := price()
	hit, err := w.Storm(StormSpec{Zone: "us-west-2a", Percent: 50, Factor: 3, Duration: Duration(time.Hour)})
	if err != nil || len(hit) < 4 || len(hit) > 16 {
		t.Fatalf("a storm of half took %d of 20: %v", len(hit), err)
	}
	if price() == before {
		t.Error("the storm did not move the price")
	}
	w.advance(3 * time.Minute)
	for _, id := range hit {
		if got := w.stateOf(id); got != "terminated" {
			t.Errorf("%s is %s", id, got)
		}
	}
}

func TestSpotPricesMove(t *testing.T) {
	w := newTestWorld(t, nil)
	history := w.must("ec2", "DescribeSpotPriceHistory", "InstanceType.1", "m5.large", "AvailabilityZone", "us-west-2a",
		"StartTime", epoch.Add(-24*time.Hour).Format(time.RFC3339), "EndTime", epoch.Format(time.RFC3339))
	prices := pickAll(history, "spotPrice")
	if len(prices) != 13 || len(slices.Compact(slices.Sorted(slices.Values(prices)))) < 10 {
		t.Errorf("a day of prices: %v", prices)
	}
	o, _ := w.st.Accounts[DefaultAccount].Regions["us-west-2"].offers.Offer("m5.large")
	for _, p := range prices {
		var v float64
		if _, err := fmt.Sscan(p, &v); err != nil || v < o.Spot*0.6 || v > o.OnDemand {
			t.Errorf("price %s is not near %g and below %g", p, o.Spot, o.OnDemand)
		}
	}
}

func TestSteadySpot(t *testing.T) {
	w := newTestWorld(t, func(o *Options) { o.SteadySpot = true })
	w.prepareLaunch()
	w.advance(100 * time.Hour)
	prices := pickAll(w.must("ec2", "DescribeSpotPriceHistory", "InstanceType.1", "m5.large", "AvailabilityZone", "us-west-2a",
		"StartTime", epoch.Format(time.RFC3339), "EndTime", epoch.Add(100*time.Hour).Format(time.RFC3339)), "spotPrice")
	if len(slices.Compact(prices)) != 1 {
		t.Errorf("prices that shall not move: %v", prices)
	}
	var types []string
	for _, typ := range []string{"c5.large", "c6a.large", "c6i.large", "m5.large", "m6a.large", "m6i.large", "r5.large", "r6i.large"} {
		types = append(types, typ+"@"+subnetA, typ+"@"+subnetB)
	}
	choose := func(strategy string) string {
		return pickFirst(w.must("ec2", "CreateFleet", append(fleetPairs("tpl", "spot", 1, types...), "SpotOptions.AllocationStrategy", strategy)...), "instanceType")
	}
	if got, want := choose("price-capacity-optimized"), choose("lowest-price"); got != want {
		t.Errorf("with pools of one depth the choice is %s, want the cheapest, %s", got, want)
	}
	var cost float64
	list, err := w.Instances("")
	for i := range list {
		cost += list[i].Price
	}
	if want, _ := strconv.ParseFloat(prices[0], 64); err != nil || cost < want/2 || cost > 4*want {
		t.Errorf("%d instances cost %g an hour, %v; an m5.large costs %g", len(list), cost, err, want)
	}
}

func TestEventualConsistency(t *testing.T) {
	w := newTestWorld(t, func(o *Options) {
		o.Timing.Consistency, o.Timing.IAMConsistency = 10*time.Second, 5*time.Second
	})
	w.prepareLaunch()
	if got := pickFirst(w.fleet("spot", 1, "m5.large@"+subnetA), "errorMessage"); !strings.Contains(got, "Invalid IAM Instance Profile") {
		t.Errorf("EC2 knew a profile at once: %q", got)
	}
	w.advance(10 * time.Second)
	ids := launched(w.fleet("spot", 20, "m5.large@"+subnetA))
	seen := func() int {
		return strings.Count(w.must("ec2", "DescribeInstances", "Filter.1.Name", "instance-type", "Filter.1.Value.1", "m5.large"), "<privateDnsName>") / 2
	}
	if n := seen(); n == 20 {
		t.Error("all instances were visible at once")
	}
	w.advance(10 * time.Second)
	if n := seen(); n != len(ids) {
		t.Errorf("%d of %d visible at last", n, len(ids))
	}
}

func TestThrottling(t *testing.T) {
	w := newTestWorld(t, func(o *Options) { o.Throttle = true })
	hits := func() (ok, limited int) {
		for range 150 {
			status, body := w.send("ec2", "DescribeSubnets")
			switch {
			case status == 200:
				ok++
			case status == 503 && pickFirst(body, "Code") == "RequestLimitExceeded":
				limited++
			default:
				t.Fatalf("%d %s", status, body)
			}
		}
		return ok, limited
	}
	if ok, limited := hits(); ok != 100 || limited != 50 {
		t.Errorf("a burst of 150: %d went through, %d were limited", ok, limited)
	}
	w.clock.Advance(time.Second)
	if ok, _ := hits(); ok != 20 {
		t.Errorf("a second later %d went through, want 20", ok)
	}
}

func TestFaults(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	add := func(f Fault) {
		t.Helper()
		if err := w.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	add(Fault{Kind: FaultError, Action: "ec2:CreateFleet", Nth: 2, Code: "InternalError", Status: 500})
	pairs := fleetPairs("tpl", "spot", 1, "m5.large@"+subnetA)
	id := launched(w.must("ec2", "CreateFleet", pairs...))[0]
	if status, body := w.send("ec2", "CreateFleet", pairs...); status != 500 || pickFirst(body, "Code") != "InternalError" {
		t.Errorf("second call: %d %s", status, body)
	}
	w.must("ec2", "CreateFleet", pairs...)
	w.ClearFaults()

	add(Fault{Kind: FaultEmpty, Action: "ec2:DescribeInstances", Count: 1})
	if strings.Contains(w.must("ec2", "DescribeInstances"), "<instanceId>") {
		t.Error("the describe was not empty")
	}
	if !strings.Contains(w.must("ec2", "DescribeInstances"), id) {
		t.Error("the fault outlived its count")
	}
	w.advance(time.Minute)
	w.must("ec2", "TerminateInstances", "InstanceId.1", id)
	add(Fault{Kind: FaultStale, Action: "ec2:Describe*", Delay: Duration(10 * time.Second), Count: 1})
	if got := w.stateOf(id); got != "running" {
		t.Errorf("a stale describe shows %s", got)
	}
	if got := w.stateOf(id); got != "shutting-down" {
		t.Errorf("a fresh describe shows %s", got)
	}
	w.ClearFaults()

	add(Fault{Kind: FaultError, Action: "ec2:DescribeSubnets", Percent: 30, Code: "Unavailable", Status: 503})
	failed := 0
	for range 200 {
		if status, _ := w.send("ec2", "DescribeSubnets"); status == 503 {
			failed++
		}
	}
	if failed < 40 || failed > 80 {
		t.Errorf("30 per cent of 200 were %d", failed)
	}
	for _, bad := range []Fault{{Kind: "odd"}, {Kind: FaultError}, {Kind: FaultStale}, {Kind: FaultDrop, Percent: 101}} {
		if err := w.AddFault(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// TestEffectWithoutAnswer is the hard case: the call took effect and the caller
// does not know.
func TestEffectWithoutAnswer(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	server := httptest.NewServer(w.Handler())
	defer server.Close()
	if err := w.AddFault(Fault{Kind: FaultDrop, Action: "ec2:CreateFleet", Count: 1}); err != nil {
		t.Fatal(err)
	}
	pairs := append(fleetPairs("tpl", "spot", 1, "m5.large@"+subnetA), "ClientToken", "claim-1")
	form := strings.Builder{}
	form.WriteString("Action=CreateFleet&Version=2016-11-15")
	for i := 0; i < len(pairs); i += 2 {
		form.WriteString("&" + pairs[i] + "=" + pairs[i+1])
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(form.String()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", authorization("test", "ec2"))
	if resp, err := http.DefaultClient.Do(r); err == nil {
		resp.Body.Close()
		t.Fatalf("got an answer: %d", resp.StatusCode)
	}
	found := pickFirst(w.must("ec2", "DescribeInstances"), "instanceId")
	again := launched(w.must("ec2", "CreateFleet", pairs...))
	if len(again) != 1 || again[0] != found {
		t.Errorf("the token found %v, the world has %s", again, found)
	}
}

func TestSaveAndLoad(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	if err := w.SetStock(StockRule{Type: "c5.large", Count: 3}); err != nil {
		t.Fatal(err)
	}
	ids := launched(w.fleet("spot", 2, "m5.large@"+subnetA))
	w.fleet("on-demand", 1, "c5.large@"+subnetA)
	var file bytes.Buffer
	if err := w.Save(&file); err != nil {
		t.Fatal(err)
	}
	saved := file.String()
	again := newTestWorld(t, nil)
	if err := again.Load(strings.NewReader(saved)); err != nil {
		t.Fatal(err)
	}
	if got := again.stateOf(ids[0]); got != "pending" {
		t.Errorf("state %s after loading", got)
	}
	again.advance(time.Minute)
	if got := again.stateOf(ids[0]); got != "running" {
		t.Errorf("what was under way did not go on: %s", got)
	}
	if got := len(launched(again.fleet("on-demand", 5, "c5.large@"+subnetA))); got != 2 {
		t.Errorf("%d left of the saved stock, want 2", got)
	}
	// Ids go on where they stopped, and both worlds go on alike.
	w.ClearStock()
	again2 := newTestWorld(t, nil)
	if err := again2.Load(strings.NewReader(saved)); err != nil {
		t.Fatal(err)
	}
	if a, b := launched(w.fleet("spot", 1, "m5.large@"+subnetB)), launched(again2.fleet("spot", 1, "m5.large@"+subnetB)); !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	for _, bad := range []string{"", "{}", "[1]", `{"Accounts":{"1":{"Regions":{"mars-1":{}}}},"Keys":{},"Pools":{}}`} {
		if err := newTestWorld(t, nil).Load(strings.NewReader(bad)); err == nil {
			t.Errorf("state %q was accepted", bad)
		}
	}
}

// TestSameSeedSameWorld replays a run.
func TestSameSeedSameWorld(t *testing.T) {
	run := func() string {
		w := newTestWorld(t, nil)
		w.prepareLaunch()
		if err := w.AddFault(Fault{Kind: FaultError, Action: "ec2:CreateFleet", Percent: 40, Code: "InternalError", Status: 500}); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		for range 30 {
			status, body := w.send("ec2", "CreateFleet", fleetPairs("tpl", "spot", 2, "m5.large@"+subnetA, "c5.large@"+subnetB)...)
			fmt.Fprintln(&log, status, launched(body), pickAll(body, "instanceType"))
			w.advance(7 * time.Second)
		}
		return log.String()
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}

// TestStartAndStop: an instance that is on its way somewhere else can be neither started nor stopped.
func TestStartAndStop(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	id := launched(w.must("ec2", "CreateFleet", fleetPairs("tpl", "on-demand", 1, "m5.large@"+subnetA)...))[0]
	w.advance(time.Minute)
	w.must("ec2", "StopInstances", "InstanceId.1", id)
	if body := w.refused("IncorrectInstanceState", "StartInstances", "InstanceId.1", id); !strings.Contains(body, id) {
		t.Errorf("the message does not name the instance: %s", body)
	}
	w.must("ec2", "StopInstances", "InstanceId.1", id)
	w.advance(time.Minute)
	w.must("ec2", "StartInstances", "InstanceId.1", id)
	w.must("ec2", "TerminateInstances", "InstanceId.1", id)
	w.refused("IncorrectInstanceState", "StopInstances", "InstanceId.1", id)
	w.refused("IncorrectInstanceState", "StartInstances", "InstanceId.1", id)
}
