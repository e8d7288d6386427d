package simaws

import (
	"net/http"
	"strings"
	"time"
)

// Limit is a token bucket: Rate tokens per second up to Burst.
type Limit struct {
	Rate  float64 `json:"rate"`
	Burst float64 `json:"burst"`
}

// classes are the request limits in force with Options.Throttle. The first
// pattern that matches an action names its class; each account and region has
// its own bucket per class.
var classes = []struct {
	pattern string
	limit   Limit
}{
	{"ec2:RunInstances", Limit{2, 1000}},
	{"ec2:CreateFleet", Limit{5, 100}},
	{"ec2:TerminateInstances", Limit{5, 100}},
	{"ec2:CreateTags", Limit{10, 100}},
	{"ec2:DeleteTags", Limit{10, 100}},
	{"ec2:Describe*", Limit{20, 100}},
	{"ec2:Get*", Limit{20, 100}},
	{"ec2:*", Limit{5, 50}},
	{"ssm:*", Limit{40, 100}},
	{"pricing:*", Limit{10, 20}},
	{"iam:*", Limit{15, 100}},
	{"eks:*", Limit{10, 100}},
}

type bucket struct {
	Limit
	tokens float64
	at     time.Time
}

// take removes one token if there is one.
func (b *bucket) take(now time.Time) bool {
	if b.at.IsZero() {
		b.tokens = b.Burst
	} else {
		b.tokens = min(b.Burst, b.tokens+b.Rate*now.Sub(b.at).Seconds())
	}
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (s *Sim) throttle(c *call) error {
	if !s.opt.Throttle {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	action := c.iamAction()
	for _, class := range classes {
		if !wildcard(class.pattern, action) {
			continue
		}
		key := strings.Join([]string{c.who.Account, c.region, class.pattern}, "/")
		b := s.limits[key]
		if b == nil {
			b = &bucket{Limit: class.limit}
			s.limits[key] = b
		}
		if !b.take(c.at) {
			return c.throttled()
		}
		return nil
	}
	return nil
}

// throttled is the refusal in the words of the service.
func (c *call) throttled() *apiError {
	switch c.proto {
	case protoEC2:
		return fail("RequestLimitExceeded", "Request limit exceeded.").withStatus(http.StatusServiceUnavailable)
	case protoQuery:
		return fail("Throttling", "Rate exceeded")
	}
	return fail("ThrottlingException", "Rate exceeded")
}
