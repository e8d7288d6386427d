package simaws

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// register collects what a watcher is told.
type register struct{ joined, left []string }

func (r *register) Joined(m Instance) {
	r.joined = append(r.joined, m.InstanceID+" "+m.Node.ClusterName+" "+m.NodeName)
}

func (r *register) Left(m Instance, reason string) {
	r.left = append(r.left, m.InstanceID+" "+reason)
}

func TestBoot(t *testing.T) {
	r := &register{}
	w := newTestWorld(t, func(o *Options) { o.Watcher = r })
	w.prepareLaunch()
	id := launched(w.fleet("spot", 1, "m5.large@"+subnetA))[0]
	w.advance(DefaultTiming.Pending + DefaultTiming.Join - time.Second)
	if len(r.joined) != 0 {
		t.Error("joined too early")
	}
	w.advance(time.Second)
	if want := id + " c1 ip-192-168-0-4.us-west-2.compute.internal"; len(r.joined) != 1 || r.joined[0] != want {
		t.Errorf("joined %v, want %s", r.joined, want)
	}
	w.must("ec2", "TerminateInstances", "InstanceId.1", id)
	if len(r.left) != 1 || r.left[0] != id+" terminated" {
		t.Errorf("left %v", r.left)
	}
}

// TestUnbootable: such an instance runs, never joins, and its console says why.
func TestUnbootable(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		extra      []string
	}{
		{"shell on AL2023", "no NodeConfig", []string{"LaunchTemplateData.UserData", encoded("#!/bin/bash\n/etc/eks/bootstrap.sh c1")}},
		{"no user data", "user data is empty", []string{"LaunchTemplateData.UserData", ""}},
		{"other cluster", "cluster &#34;c2&#34; does not exist", []string{"LaunchTemplateData.UserData", encoded(strings.ReplaceAll(testNodeConfig, "name: c1", "name: c2"))}},
		{"other endpoint", "is not that of cluster", []string{"LaunchTemplateData.UserData", encoded(strings.ReplaceAll(testNodeConfig, "https://c1", "https://c9"))}},
		{"no profile", "no instance profile", []string{"LaunchTemplateData.IamInstanceProfile.Name", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &register{}
			w := newTestWorld(t, func(o *Options) { o.Watcher = r })
			w.prepareLaunch(tc.extra...)
			id := launched(w.fleet("spot", 1, "m5.large@"+subnetA))[0]
			w.advance(time.Hour)
			console, err := base64.StdEncoding.DecodeString(pickFirst(w.must("ec2", "GetConsoleOutput", "InstanceId", id), "output"))
			if err != nil || len(r.joined) != 0 || w.stateOf(id) != "running" {
				t.Errorf("joined %v, state %s, %v", r.joined, w.stateOf(id), err)
			}
			if want := strings.ReplaceAll(tc.want, "&#34;", `"`); !strings.Contains(string(console), want) {
				t.Errorf("console %q lacks %q", console, want)
			}
		})
	}
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestJoinFaults(t *testing.T) {
	r := &register{}
	w := newTestWorld(t, func(o *Options) { o.Watcher = r })
	w.prepareLaunch()
	for _, f := range []Fault{{Kind: FaultNeverJoin, Zone: "us-west-2a"}, {Kind: FaultSlowJoin, Type: "c5.*", Delay: Duration(time.Hour)}} {
		if err := w.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	w.fleet("spot", 3, "m5.large@"+subnetA)
	w.fleet("spot", 2, "c5.large@"+subnetB)
	w.fleet("spot", 1, "m5.large@"+subnetB)
	w.advance(30 * time.Minute)
	if len(r.joined) != 1 {
		t.Errorf("%d joined, want only the untouched one", len(r.joined))
	}
	w.advance(time.Hour)
	if len(r.joined) != 3 {
		t.Errorf("%d joined in the end, want 3", len(r.joined))
	}
}

// caller calls the world from inside a watcher.
type caller struct {
	w    *world
	seen []string
}

func (c *caller) Joined(m Instance) {
	c.seen = append(c.seen, c.w.stateOf(m.InstanceID))
	c.w.must("ec2", "TerminateInstances", "InstanceId.1", m.InstanceID)
}

func (c *caller) Left(_ Instance, reason string) { c.seen = append(c.seen, reason) }

func TestWatcherMayCallBack(t *testing.T) {
	c := &caller{}
	c.w = newTestWorld(t, func(o *Options) { o.Watcher = c })
	c.w.prepareLaunch()
	c.w.fleet("spot", 2, "m5.large@"+subnetA)
	c.w.advance(time.Minute)
	if got := strings.Join(c.seen, " "); got != "running running terminated terminated" {
		t.Errorf("saw %s", got)
	}
}
