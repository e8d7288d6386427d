package cloudtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// need ends the test if the provider cannot do something and says why.
func (s *suite) need(a Ability, given bool) {
	s.Helper()
	if why := s.Cannot[a]; why != "" {
		s.Skip(why)
	}
	if !given {
		s.Fatalf("the harness has nothing to test %s with; give it, or say in Cannot why there is none", a)
	}
}

// recorded is the claim once its instance is written down, as the launch loop does it.
func recorded(claim *karpv1.NodeClaim, in *cloud.Instance) *karpv1.NodeClaim {
	claim = claim.DeepCopy()
	for key, value := range in.Labels {
		claim.Labels[key] = value
	}
	maps.Copy(claim.Annotations, in.Annotations)
	claim.Status.ProviderID, claim.Status.ImageID = in.ProviderID, in.ImageID
	claim.Status.Capacity, claim.Status.Allocatable = in.Capacity, in.Allocatable
	return claim
}

// absence ends an instance that has only just begun.
func (s *suite) absence() {
	id := s.ids(s.settle(s.Provider, s.batch("b1", 1, s.Spec)))[0]
	if _, err := s.Get(s.ctx, id); cloud.ClassOf(err) == cloud.NotFound {
		s.Errorf("an instance that was launched just now is called absent: %v", err)
	}
	for range tries {
		s.Advance(visible)
		if cloud.ClassOf(s.Delete(s.ctx, id)) == cloud.NotFound {
			break
		}
	}
	s.persist("get what has ended", func() error {
		in, err := s.Get(s.ctx, id)
		if err == nil && in.State.Ending() || cloud.ClassOf(err) == cloud.NotFound {
			return nil
		}
		return fmt.Errorf("got %+v, %w", in, err)
	})
	if list := s.running(); len(list) != 0 {
		s.Errorf("what has ended is listed: %+v", list[0])
	}
}

// partial asks for five where there are three.
func (s *suite) partial() {
	s.need(Shortage, s.Left != nil)
	s.Left(3)
	b := s.batch("b1", 5, s.Spec)
	made := func(results []cloud.Result) (ids []string) {
		for _, r := range results {
			if r.Instance != nil {
				ids = append(ids, r.Instance.ID)
			} else if cloud.ClassOf(r.Err) != cloud.NoCapacity {
				s.Errorf("got %v, want class NoCapacity", r.Err)
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	first := made(s.settle(s.Provider, b))
	if n := len(s.running()); len(first) != 3 || n != 3 {
		s.Errorf("of five claims %d got an instance, and %d run; want 3", len(first), n)
	}
	// After a crash before anything was written down, the same instances are found, and no more are made.
	if again := made(s.settle(s.Start(), b)); !slices.Equal(first, again) || len(s.running()) != 3 {
		s.Errorf("got %v, then %v, and %d run", first, again, len(s.running()))
	}
}

// stock runs the cloud dry, and fills it again.
func (s *suite) stock() {
	s.need(Shortage, s.Left != nil)
	s.Left(0)
	if r := s.settle(s.Provider, s.batch("dry", 1, s.Spec))[0]; cloud.ClassOf(r.Err) != cloud.NoCapacity {
		s.Errorf("got %v, want class NoCapacity", r.Err)
	}
	if types, err := s.Types(s.Class); err != nil || len(types.List) == 0 {
		s.Errorf("what is out of stock is still something that the class can launch: %v, %v", types, err)
	}
	if n := len(s.running()); n != 0 {
		s.Errorf("%d instances run, want none", n)
	}
	s.Left(-1)
	for i := range tries {
		s.Advance(time.Minute)
		if r := s.settle(s.Provider, s.batch(fmt.Sprint("back-", i), 1, s.Spec))[0]; r.Err == nil {
			return
		}
	}
	s.Error("what is back in stock is not launched")
}

func (s *suite) drift() {
	b := s.batch("b1", 1, s.Spec)
	r := s.settle(s.Provider, b)[0]
	s.ids([]cloud.Result{r})
	claim := recorded(b.Claims[0], r.Instance)
	s.Advance(visible)
	judge := func(want bool) {
		s.Helper()
		s.persist("judge drift", func() error {
			reason, err := s.Drifted(s.ctx, claim)
			if err == nil && (reason != "") != want {
				s.Errorf("the reason for drift is %q", reason)
			}
			return err
		})
	}
	judge(false)
	s.need(Drift, s.Change != nil)
	s.Change()
	judge(true)
}

func (s *suite) tags() {
	id := s.ids(s.settle(s.Provider, s.batch("b1", 2, s.Spec)))[0]
	s.Advance(visible)
	first, second := cmp.Or(s.TagKeys[0], "test-first"), cmp.Or(s.TagKeys[1], "test-second")
	put := func(tags map[string]string) (err error) {
		for range tries {
			if err = s.Tag(s.ctx, id, tags); err == nil || errors.Is(err, errors.ErrUnsupported) {
				return err
			}
			s.Advance(time.Second)
		}
		return err
	}
	err := put(map[string]string{first: "1"})
	if can := !errors.Is(err, errors.ErrUnsupported); can == (s.Cannot[Tags] != "") {
		s.Fatalf("tags work %t (%v), and Harness.Cannot says %q: make them agree", can, err, s.Cannot[Tags])
	} else if !can {
		s.Skip(s.Cannot[Tags])
	}
	if err == nil {
		err = put(map[string]string{first: "2", second: "2"})
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Advance(visible)
	s.persist("get", func() error {
		in, err := s.Get(s.ctx, id)
		if err == nil && (in.Tags[first] != "1" || in.Tags[second] != "2") {
			s.Errorf("tags are %v", in.Tags)
		}
		return err
	})
}
