package control

import (
	"sync"
	"time"
)

// What may be destroyed without anybody having asked: a tenth of the fleet in ten minutes. A fault that makes many instances
// look lost at once, in the cloud or in us, then costs no more than that before somebody can look. Of up to ten instances a fifth may
// go, as repair allows (D58): of so few a tenth is one, and two that break together are no sign of anything else.
const (
	quotaShare  = 10
	smallShare  = 5
	smallFleet  = 10
	quotaWindow = 10 * time.Minute
)

// quotaOf is how many instances of a fleet may be destroyed within the window.
func quotaOf(fleet int) int {
	share := quotaShare
	if fleet <= smallFleet {
		share = smallShare
	}
	return max(1, (fleet+share-1)/share)
}

// Quota is what everything that destroys on its own judgement spends from: collectors of orphans, status checks, repair. All
// of them share one.
type Quota struct {
	now func() time.Time

	mu    sync.Mutex
	spent []time.Time
}

// NewQuota is a full quota.
func NewQuota(now func() time.Time) *Quota { return &Quota{now: now} }

// Take says whether one more instance of a fleet of that size may be destroyed now, and if so counts it. One always may.
func (p *Quota) Take(fleet int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for len(p.spent) > 0 && now.Sub(p.spent[0]) >= quotaWindow {
		p.spent = p.spent[1:]
	}
	if len(p.spent) >= quotaOf(fleet) {
		return false
	}
	p.spent = append(p.spent, now)
	return true
}
