package simaws

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLedger does random things to a world and holds its books against its
// instances after each: addresses, vCPUs, reservations, pools and volumes.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newTestWorld(t, func(o *Options) {
			o.KubernetesVersions = []string{"1.34"}
			o.Seed = rapid.Uint64().Draw(rt, "seed")
		})
		w.prepareLaunch()
		if err := w.SetStock(StockRule{Type: "c5.*", Count: 3, Refill: Duration(time.Minute)}); err != nil {
			rt.Fatal(err)
		}
		w.must("ec2", "CreateCapacityReservation", "InstanceType", "m5.large", "AvailabilityZone", "us-west-2a", "InstanceCount", "2", "InstancePlatform", "Linux/UNIX")
		w.SetQuotas(Quotas{OnDemandVCPUs: 60, SpotVCPUs: 40, LaunchTemplates: 10, InstanceProfiles: 10})
		var ids []string
		types := []string{"m5.large", "c5.large", "c5.xlarge", "m5.2xlarge", "m6g.large"}
		subnets := []string{subnetA, subnetB, subnetC}
		steps := rapid.IntRange(1, 25).Draw(rt, "steps")
		for range steps {
			switch rapid.SampledFrom([]string{"launch", "launch", "end", "stop", "start", "interrupt", "wait"}).Draw(rt, "step") {
			case "launch":
				capacityType := rapid.SampledFrom([]string{"spot", "on-demand"}).Draw(rt, "capacityType")
				var overrides []string
				for range rapid.IntRange(1, 3).Draw(rt, "overrides") {
					overrides = append(overrides, rapid.SampledFrom(types).Draw(rt, "type")+"@"+rapid.SampledFrom(subnets).Draw(rt, "subnet"))
				}
				ids = append(ids, launched(w.fleet(capacityType, rapid.IntRange(1, 8).Draw(rt, "n"), overrides...))...)
			case "wait":
				w.advance(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "seconds")) * time.Second)
			case "interrupt":
				if len(ids) > 0 {
					// Most are not spot or already gone; that is an error, and harmless.
					_ = w.Interrupt("", rapid.SampledFrom(ids).Draw(rt, "id"))
				}
			case "end":
				w.touch(rt, "TerminateInstances", ids)
			case "stop":
				w.touch(rt, "StopInstances", ids)
			case "start":
				w.touch(rt, "StartInstances", ids)
			}
			err := w.books()
			if r := w.st.Accounts[DefaultAccount].Regions["us-west-2"]; r.InUse["spot"] > 40 || r.InUse["on-demand"] > 60 {
				err = fmt.Errorf("quotas exceeded: %v", r.InUse)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// touch applies an action to one instance; it may be forgotten by now.
func (w *world) touch(rt *rapid.T, action string, ids []string) {
	if len(ids) > 0 {
		w.send("ec2", action, "InstanceId.1", rapid.SampledFrom(ids).Draw(rt, "id"))
	}
}

// books recounts everything from the instances.
func (w *world) books() error {
	r := w.st.Accounts[DefaultAccount].Regions["us-west-2"]
	addresses, vcpus, reserved := map[string]int{}, map[string]int{}, map[string]int{}
	ips := map[string]string{}
	volumes := 0
	for in := range r.Instances.each {
		if len(in.History) == 0 {
			return fmt.Errorf("%s has no history", in.ID)
		}
		for i := 1; i < len(in.History); i++ {
			if in.History[i].At.Before(in.History[i-1].At) {
				return fmt.Errorf("%s: history runs backwards: %v", in.ID, in.History)
			}
		}
		if !in.alive() {
			continue
		}
		addresses[in.Subnet] += in.Addresses
		vcpus[in.capacityType()] += w.cat.Type(in.Type).VCPUs
		reserved[in.CapacityReservation]++
		volumes += len(in.Devices)
		if other := ips[in.PrivateIP]; other != "" {
			return fmt.Errorf("%s and %s both have %s", in.ID, other, in.PrivateIP)
		}
		ips[in.PrivateIP] = in.ID
	}
	for s := range r.Subnets.each {
		if s.Used != addresses[s.ID] {
			return fmt.Errorf("%s counts %d addresses, instances have %d", s.ID, s.Used, addresses[s.ID])
		}
	}
	for _, capacityType := range []string{"spot", "on-demand"} {
		if r.InUse[capacityType] != vcpus[capacityType] {
			return fmt.Errorf("%s counts %d vCPUs, instances have %d", capacityType, r.InUse[capacityType], vcpus[capacityType])
		}
	}
	for cr := range r.Reservations.each {
		if cr.Used != reserved[cr.ID] || cr.Used > cr.Total {
			return fmt.Errorf("%s counts %d of %d, instances %d", cr.ID, cr.Used, cr.Total, reserved[cr.ID])
		}
	}
	for key, p := range w.st.Pools {
		if p.Left < 0 {
			return fmt.Errorf("pool %s has %d left", key, p.Left)
		}
	}
	if r.Volumes.len() != volumes {
		return fmt.Errorf("%d volumes, instances have %d", r.Volumes.len(), volumes)
	}
	return nil
}
