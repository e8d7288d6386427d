package aws

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/test/harness/sdk"
)

func TestAWS_6_DryRunDenied(t *testing.T) {
	for action, want := range map[string]string{
		"ec2:CreateLaunchTemplate": awsv1.ReasonCreateLaunchTemplateAuthCheckFailed,
		"ec2:CreateFleet":          awsv1.ReasonCreateFleetAuthCheckFailed,
		"ec2:RunInstances":         awsv1.ReasonRunInstancesAuthCheckFailed,
	} {
		t.Run(action, func(t *testing.T) {
			w := newWorld(t)
			w.role(nodeRole)
			w.refresh()
			w.deny(action)
			class := w.addClass("default")
			got := class.StatusConditions(true).Get(awsv1.ConditionValidationSucceeded)
			if got.Status != metav1.ConditionFalse || got.Reason != want || !strings.Contains(got.Message, action) {
				t.Errorf("got %+v, want %s with a message that names %s", got, want, action)
			}
			w.opt.DisableDryRun = true
			w.reborn()
			w.Reconcile(w.ctx, class)
			if !class.StatusConditions(true).IsTrue(karpv1.ConditionReady) {
				t.Errorf("without dry run: %+v", class.Status.Conditions)
			}
		})
	}
}

func TestAWS_6_TrialCountsForAWhile(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	calls := w.called("CreateFleet")
	for range 5 {
		w.advance(5 * time.Minute)
		w.Reconcile(w.ctx, class)
	}
	if n := w.called("CreateFleet"); n != calls {
		t.Errorf("nothing changed, but the launch was tried %d times more", n-calls)
	}
	w.advance(10 * time.Minute)
	w.Reconcile(w.ctx, class)
	class.Spec.UserData = aws.String("#!/bin/bash\necho hello\n")
	class.Generation++
	w.Reconcile(w.ctx, class)
	if n := w.called("CreateFleet"); n != calls+2 {
		t.Errorf("the launch was tried %d times, want once after half an hour and once after a change", n-calls)
	}
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:RunInstances", Code: "InternalError", Status: 500}))
	w.advance(trialLife)
	w.Reconcile(w.ctx, class)
	if !class.StatusConditions(true).IsTrue(karpv1.ConditionReady) {
		t.Errorf("11.20: a server error takes nothing from a class that works: %+v", class.Status.Conditions)
	}
}

func TestAWS_1_7_UserDataThatCannotBeUsed(t *testing.T) {
	w := newWorld(t)
	w.load()
	for _, tt := range []struct {
		name, reason string
		edit         func(*awsv1.EC2NodeClass)
	}{
		{"too long", awsv1.ReasonUserDataSizeLimitExceeded, func(c *awsv1.EC2NodeClass) { c.Spec.UserData = aws.String(strings.Repeat("# long\n", 3000)) }},
		{"not TOML", ReasonUserDataInvalid, func(c *awsv1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest"
			c.Spec.UserData = aws.String("[settings\n")
		}},
		{"image of another architecture", "NoInstanceTypes", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMIFamily = aws.String("Windows2022")
			c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Name: "amazon-eks-node-al2023-arm64-standard-1.34-*"}}
		}},
		{"profile", awsv1.ReasonInstanceProfileNotFound, func(c *awsv1.EC2NodeClass) { c.Spec.Role, c.Spec.InstanceProfile = "", aws.String("nobody-made-this") }},
	} {
		got := w.addClass("bad", tt.edit).StatusConditions(true).Get(awsv1.ConditionValidationSucceeded)
		if got.Status != metav1.ConditionFalse || got.Reason != tt.reason {
			t.Errorf("%s: got %s %s: %s", tt.name, got.Status, got.Reason, got.Message)
		}
	}
}

func TestAWS_2_3_DeniedLaunch(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.deny("ec2:CreateFleet")
	r := w.Launch(w.ctx, w.batch("b", 1, onDemandOnly, typeIs("m5.large")))[0]
	if cloud.ClassOf(r.Err) != cloud.Denied || cloud.ReasonOf(r.Err) != "Unauthorized" {
		t.Errorf("got %v", r.Err)
	}
}

// TestAWS_6_TheTrialTriesWhatPoolsAllow: a class whose pools allow certain types, of a certain tenancy, is tried with those, in every subnet.
func TestAWS_6_TheTrialTriesWhatPoolsAllow(t *testing.T) {
	pool := func(name string, needs ...karpv1.NodeSelectorRequirementWithMinValues) *karpv1.NodePool {
		p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Template.Spec.Requirements = needs
		return p
	}
	pools := []*karpv1.NodePool{
		pool("a", typeIs("c5.large")), pool("b", typeIs("c5.large"), need(awsv1.LabelInstanceTenancy, "dedicated")), pool("c", typeIs("c5.large")), pool("d", typeIs("no.such")),
	}
	sent := &sentForms{}
	clock := simaws.NewManual(epoch)
	w := newWorldAt(t, clock, func(sim *simaws.Sim) (string, aws.HTTPClient) {
		server := httptest.NewServer(sim.Handler())
		t.Cleanup(server.Close)
		return server.URL, sent
	}, func(_ *simaws.Options, o *Options) {
		o.Clock, o.Pools = eager{clock}, func(string) []*karpv1.NodePool { return pools }
	})
	w.load()
	specimens, _ := w.specimens(w.class("default"))
	var got []string
	for _, s := range specimens {
		got = append(got, s.typ+" "+s.tenancy)
	}
	if want := []string{"c5.large default", "c5.large dedicated"}; !slices.Equal(got, want) {
		t.Errorf("tried %v, want %v", got, want)
	}
	// What EC2 was asked is that: every subnet, by fleet and one by one, with the template of that tenancy.
	tenancy, asked, want := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, form := range sent.of("CreateLaunchTemplate") {
		tenancy[form.Get("LaunchTemplateName")] = form.Get("LaunchTemplateData.Placement.Tenancy")
	}
	for _, form := range sent.of("CreateFleet") {
		at := "LaunchTemplateConfigs.1."
		for i := 1; form.Has(fmt.Sprint(at, "Overrides.", i, ".SubnetId")); i++ {
			over := fmt.Sprint(at, "Overrides.", i, ".")
			asked[fmt.Sprint("fleet ", form.Get(over+"InstanceType"), " ", form.Get(over+"SubnetId"), " ", tenancy[form.Get(at+"LaunchTemplateSpecification.LaunchTemplateName")])] = true
		}
	}
	for _, form := range sent.of("RunInstances") {
		asked[fmt.Sprint("run ", form.Get("InstanceType"), " ", form.Get("NetworkInterface.1.SubnetId"), " ", tenancy[form.Get("LaunchTemplate.LaunchTemplateName")])] = true
	}
	for _, subnet := range w.class("default").Status.Subnets {
		for _, kind := range []string{"default", "dedicated"} {
			want["fleet c5.large "+subnet.ID+" "+kind], want["run c5.large "+subnet.ID+" "+kind] = true, true
		}
	}
	if diff := cmp.Diff(want, asked); diff != "" || len(want) < 8 {
		t.Errorf("what is tried (-want +got):\n%s", diff)
	}
}

// sentForms keeps what is sent to EC2.
type sentForms struct {
	mu    sync.Mutex
	forms []url.Values
}

// Do implements the SDK's client.
func (s *sentForms) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil {
			s.mu.Lock()
			s.forms = append(s.forms, form)
			s.mu.Unlock()
		}
	}
	return sdk.Client{}.Do(r)
}

// of are the calls of one action.
func (s *sentForms) of(action string) (out []url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, form := range s.forms {
		if form.Get("Action") == action {
			out = append(out, form)
		}
	}
	return out
}

// TestAWS_6_UnsupportedIsAnAnswer: a zone that does not sell the type that is tried says nothing against the class.
func TestAWS_6_UnsupportedIsAnAnswer(t *testing.T) {
	w := newWorld(t)
	w.role(nodeRole)
	w.refresh()
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:RunInstances", Code: "Unsupported", Message: "Your requested instance type (m5.large) is not supported in your requested Availability Zone (us-west-2a)."}))
	class := w.addClass("default")
	if got := class.StatusConditions(true).Get(awsv1.ConditionValidationSucceeded); got.Status != metav1.ConditionTrue {
		t.Errorf("got %+v", got)
	}
}

// TestAWS_3_ReservationsWithoutAPrice are offered: they are paid for.
func TestAWS_3_ReservationsWithoutAPrice(t *testing.T) {
	w := newWorld(t)
	id, err := w.sim.AddReservation(simaws.ReservationSpec{Type: "m5.large", Zone: "us-west-2a", Count: 2, Tags: []simaws.Tag{{Key: "use", Value: "yes"}}})
	w.must(err)
	w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"use": "yes"}}}
	})
	w.prices.update(func(t *priceTable) {
		t.onDemand = maps.Clone(t.onDemand)
		delete(t.onDemand, "m5.large")
	})
	for _, o := range w.typeNamed("m5.large").Offerings {
		if o.Reservation == id && o.Available && o.Price == 0 {
			if in := w.one("reserved", need(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeReserved), typeIs("m5.large")); in.CapacityType != karpv1.CapacityTypeReserved {
				t.Errorf("launched %+v", in)
			}
			return
		}
	}
	t.Errorf("reservation %s is not offered: %+v", id, w.typeNamed("m5.large").Offerings)
}

// TestAWS_3_WhatPricesAre is said where they are not the region's own.
func TestAWS_3_WhatPricesAre(t *testing.T) {
	for region, want := range map[string]string{
		"us-gov-west-1": "on-demand, price unknown: estimate from us-east-1", "cn-north-1": "on-demand, price unknown: estimate from us-east-1", "eu-west-1": "on-demand, built in",
	} {
		if got := New(Options{Region: region, Clock: simClock()}).PriceState().OnDemandName(); got != want {
			t.Errorf("%s: %q, want %q", region, got, want)
		}
	}
	p := New(Options{Region: "cn-north-1", Clock: simClock()})
	p.prices.setOnDemand(map[string]float64{"m5.large": 1}, epoch)
	if got := p.PriceState().OnDemandName(); got != "on-demand, in CNY" {
		t.Errorf("with prices of its own: %q", got)
	}
}
