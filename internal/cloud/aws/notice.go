package aws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"karpenter/cloud"
)

// envelope is the part of an EventBridge event that is read.
type envelope struct {
	Version    string    `json:"version"`
	ID         string    `json:"id"`
	DetailType string    `json:"detail-type"`
	Source     string    `json:"source"`
	Time       time.Time `json:"time"`
	Detail     struct {
		InstanceID string `json:"instance-id"`
		State      string `json:"state"`

		Service  string `json:"service"`
		Category string `json:"eventTypeCategory"`
		Start    string `json:"startTime"`
		Affected []struct {
			Value string `json:"entityValue"`
		} `json:"affectedEntities"`
	} `json:"detail"`
}

// noticeKinds are the events of EC2 that are about one instance, by detail-type.
var noticeKinds = map[string]cloud.NoticeKind{
	"EC2 Spot Instance Interruption Warning":                 cloud.SpotInterrupted,
	"EC2 Instance Rebalance Recommendation":                  cloud.RebalanceRecommendation,
	"EC2 Capacity Reservation Instance Interruption Warning": cloud.CapacityReservationInterrupted,
}

// stateKinds are the states that mean an instance is on its way out.
var stateKinds = map[string]cloud.NoticeKind{
	"stopping": cloud.InstanceStopped, "stopped": cloud.InstanceStopped,
	"shutting-down": cloud.InstanceTerminated, "terminated": cloud.InstanceTerminated,
}

// maxNotice bounds what is read of a message; SQS itself takes no more.
const maxNotice = 1 << 20

// ParseNotice reads an event from the interruption queue. An event of another kind is a NoOp; text that is no event, or one
// that lacks what its kind must have, is an error.
func ParseNotice(body string) (cloud.Notice, error) {
	if len(body) > maxNotice {
		return cloud.Notice{}, fmt.Errorf("message of %d bytes is longer than any event", len(body))
	}
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return cloud.Notice{}, fmt.Errorf("message is not an EventBridge event: %w", err)
	}
	n := cloud.Notice{ID: e.ID, Kind: cloud.NoOp, At: e.Time}
	ids := []string{e.Detail.InstanceID}
	switch {
	case e.Version != "0":
		return n, nil
	case e.Source == "aws.ec2" && e.DetailType == "EC2 Instance State-change Notification":
		kind, ending := stateKinds[strings.ToLower(e.Detail.State)]
		if !ending {
			return n, nil
		}
		n.Kind = kind
	case e.Source == "aws.ec2" && noticeKinds[e.DetailType] != "":
		n.Kind = noticeKinds[e.DetailType]
	case e.Source == "aws.health" && e.DetailType == "AWS Health Event" && e.Detail.Service == "EC2" && e.Detail.Category == "scheduledChange":
		n.Kind, n.NotBefore, ids = cloud.ScheduledChange, startTime(e.Detail.Start), nil
		for _, entity := range e.Detail.Affected {
			if strings.HasPrefix(entity.Value, "i-") { // volumes and hosts may be among them
				ids = append(ids, entity.Value)
			}
		}
		if len(ids) == 0 && len(e.Detail.Affected) > 0 {
			return cloud.Notice{ID: e.ID, Kind: cloud.NoOp, At: e.Time}, nil
		}
	default:
		return n, nil
	}
	slices.Sort(ids)
	n.Instances = slices.Compact(ids)
	for _, id := range n.Instances {
		if !strings.HasPrefix(id, "i-") {
			return cloud.Notice{}, fmt.Errorf("event %q of kind %s names %q, which is not an instance", e.ID, n.Kind, id)
		}
	}
	if len(n.Instances) == 0 {
		return cloud.Notice{}, fmt.Errorf("event %q of kind %s names no instance", e.ID, n.Kind)
	}
	return n, nil
}

// startTime reads the time of a health event, which AWS writes as in mail. One that cannot be read is the zero time: better
// to act early than never.
func startTime(text string) time.Time {
	for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}
