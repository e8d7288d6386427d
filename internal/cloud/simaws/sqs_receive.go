package simaws

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// maxWait is SQS's longest poll.
const maxWait = 20 * time.Second

// receiveMessage answers at once when there is something, and otherwise sleeps
// until there is or the wait is over.
func receiveMessage(s *Sim, c *call, r *http.Request) (any, error) {
	var deadline time.Time
	for {
		s.mu.Lock()
		now := s.now()
		s.catchUp(now)
		c.at = now
		in, q, err := c.sqsOn()
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		wait, limit, err := receiveLimits(in, q)
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if deadline.IsZero() {
			deadline = now.Add(wait)
		}
		wake := s.waiters.on(c.queueARN(q.Name))
		got, next := c.take(q, in, limit)
		s.mu.Unlock()
		if len(got) > 0 || !now.Before(deadline) {
			return map[string]any{"Messages": got}, nil
		}
		until := deadline
		if !next.IsZero() && next.Before(until) {
			until = next
		}
		select {
		case <-wake:
		case <-s.opt.Clock.After(until.Sub(now)):
		case <-r.Context().Done():
			return map[string]any{"Messages": []any{}}, nil
		}
	}
}

func receiveLimits(in sqsInput, q *queue) (wait time.Duration, limit int, err error) {
	wait, limit = q.seconds("ReceiveMessageWaitTimeSeconds"), 1
	if in.WaitTimeSeconds != nil {
		wait = time.Duration(*in.WaitTimeSeconds) * time.Second
	}
	if in.MaxNumberOfMessages != nil {
		limit = *in.MaxNumberOfMessages
	}
	if wait < 0 || wait > maxWait {
		return 0, 0, fail("InvalidParameterValue", "Value %d for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.", int(wait.Seconds()))
	}
	if limit < 1 || limit > 10 {
		return 0, 0, fail("InvalidParameterValue", "Value %d for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.", limit)
	}
	return wait, limit, nil
}

// take hides up to limit visible messages and returns them, or says when the
// next one becomes visible.
func (c *call) take(q *queue, in sqsInput, limit int) (out []map[string]any, next time.Time) {
	q.expire(c.at)
	hide := q.seconds("VisibilityTimeout")
	if in.VisibilityTimeout != nil {
		hide = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	out = []map[string]any{}
	for _, m := range q.Messages {
		if len(out) == limit {
			break
		}
		if m.VisibleAt.After(c.at) {
			if next.IsZero() || m.VisibleAt.Before(next) {
				next = m.VisibleAt
			}
			continue
		}
		m.VisibleAt = c.at.Add(hide)
		m.Received++
		m.Receipt = "r/" + c.uuid()
		if m.FirstAt.IsZero() {
			m.FirstAt = c.at
		}
		out = append(out, m.describe(append(in.AttributeNames, in.MessageSystemAttributeNames...)))
	}
	return out, next
}

func (m *message) describe(want []string) map[string]any {
	all := map[string]string{
		"SentTimestamp":                    strconv.FormatInt(m.Sent.UnixMilli(), 10),
		"ApproximateReceiveCount":          strconv.Itoa(m.Received),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.FirstAt.UnixMilli(), 10),
		"SenderId":                         "AIDAIT2UOQQY3AUEKVGXU",
	}
	attrs := map[string]string{}
	for k, v := range all {
		if slices.Contains(want, "All") || slices.Contains(want, k) {
			attrs[k] = v
		}
	}
	out := map[string]any{"MessageId": m.ID, "ReceiptHandle": m.Receipt, "Body": m.Body, "MD5OfBody": md5Hex(m.Body)}
	if len(attrs) > 0 {
		out["Attributes"] = attrs
	}
	if len(m.Attributes) > 0 {
		out["MessageAttributes"] = m.Attributes
	}
	return out
}
