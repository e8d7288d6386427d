package aws

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"

	"karpenter/cloud"
)

// shifts are the zones that the cluster has been shifted away from.
type shifts struct {
	clock Clock
	now   atomic.Pointer[shiftView]
}

// shiftView is the shifts in force at one moment, by zone id. It never changes.
type shiftView struct {
	until map[string]time.Time
	// next is when the first of them ends; the view is out of date from then on.
	next time.Time
}

func newShifts(clock Clock) *shifts {
	s := &shifts{clock: clock}
	s.now.Store(&shiftView{})
	return s
}

// look returns what is in force now. Equal states keep their pointer.
func (s *shifts) look() *shiftView {
	for {
		v := s.now.Load()
		now := s.clock.Now()
		if v.next.IsZero() || now.Before(v.next) {
			return v
		}
		s.now.CompareAndSwap(v, newShiftView(v.until, now))
	}
}

// newShiftView keeps what has not ended.
func newShiftView(until map[string]time.Time, now time.Time) *shiftView {
	v := &shiftView{until: map[string]time.Time{}}
	for zone, end := range until {
		if !now.Before(end) {
			continue
		}
		v.until[zone] = end
		if v.next.IsZero() || end.Before(v.next) {
			v.next = end
		}
	}
	return v
}

// RefreshShifts asks which zones the cluster has been shifted away from, and returns them by zone id. From then on nothing is
// launched there. The answer replaces what was known, so a shift that was cancelled ends at once; one that AWS does not
// renew ends at its time even if AWS cannot be reached. Where zonal shift is off it asks nothing.
func (p *Provider) RefreshShifts(ctx context.Context) ([]cloud.Shift, error) {
	if !p.opt.ZonalShift {
		return nil, nil
	}
	out, err := p.opt.Clients.Shift.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String(p.opt.Cluster.ARN)})
	if err != nil {
		return nil, readError("list zonal shifts of cluster "+p.opt.Cluster.Name, err)
	}
	now := p.opt.Clock.Now()
	until := map[string]time.Time{}
	for _, s := range out.ZonalShifts {
		zone, end := aws.ToString(s.AwayFrom), aws.ToTime(s.ExpiryTime)
		if s.AppliedStatus == types.AppliedStatusApplied && end.After(until[zone]) {
			until[zone] = end
		}
	}
	next := newShiftView(until, now)
	if old := p.shifts.look(); !sameShifts(old, next) {
		p.shifts.now.Store(next)
	}
	return next.list(), nil
}

// Shifts returns the zones that the cluster is shifted away from now, by zone id, as far as RefreshShifts has heard.
func (p *Provider) Shifts() []cloud.Shift { return p.shifts.look().list() }

func (v *shiftView) list() []cloud.Shift {
	list := make([]cloud.Shift, 0, len(v.until))
	for zone, end := range v.until {
		list = append(list, cloud.Shift{ZoneID: zone, Until: end})
	}
	slices.SortFunc(list, func(a, b cloud.Shift) int { return strings.Compare(a.ZoneID, b.ZoneID) })
	return list
}

// sameShifts says whether two views hold the same, so that types are not worked out anew for nothing.
func sameShifts(a, b *shiftView) bool {
	if len(a.until) != len(b.until) {
		return false
	}
	for zone, end := range a.until {
		if other, ok := b.until[zone]; !ok || !other.Equal(end) {
			return false
		}
	}
	return true
}
