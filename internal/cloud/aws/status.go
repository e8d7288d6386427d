package aws

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"karpenter/cloud"
)

// checkPatience is how long a status check may fail before it counts: a check that recovers by itself does so sooner.
const checkPatience = 2 * time.Minute

const statusPage = 1000

// maintenance are the events that take an instance away or restart it.
var maintenance = []string{"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"}

// Ailing lists what EC2 says is wrong with running instances, of this cluster or not, by instance.
func (p *Provider) Ailing(ctx context.Context) ([]cloud.Ailment, error) {
	var out []cloud.Ailment
	for _, f := range []types.Filter{
		filter("instance-status.status", "impaired"), filter("system-status.status", "impaired"), filter("event.code", maintenance...),
	} {
		pages := ec2.NewDescribeInstanceStatusPaginator(p.opt.Clients.EC2, &ec2.DescribeInstanceStatusInput{Filters: []types.Filter{f}, MaxResults: aws.Int32(statusPage)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, readError("list instance status", err)
			}
			for i := range page.InstanceStatuses {
				out = append(out, ailments(&page.InstanceStatuses[i], p.opt.Clock.Now())...)
			}
		}
	}
	// what is broken already comes before what EC2 is going to do: the first is what counts
	slices.SortFunc(out, func(a, b cloud.Ailment) int {
		return cmp.Or(strings.Compare(a.Instance, b.Instance), strings.Compare(string(b.Kind), string(a.Kind)), a.NotBefore.Compare(b.NotBefore))
	})
	return slices.Compact(out), nil
}

// ailments is what is wrong with one instance. EC2 lists maintenance for days after it is over; that is none.
func ailments(s *types.InstanceStatus, now time.Time) []cloud.Ailment {
	id := aws.ToString(s.InstanceId)
	var out []cloud.Ailment
	for _, check := range []struct {
		kind    cloud.AilmentKind
		summary *types.InstanceStatusSummary
	}{{cloud.InstanceStatus, s.InstanceStatus}, {cloud.SystemStatus, s.SystemStatus}} {
		if since, failing := failingSince(check.summary); failing && now.Sub(since) >= checkPatience {
			out = append(out, cloud.Ailment{Instance: id, Kind: check.kind, Since: since})
		}
	}
	for _, e := range s.Events {
		text := aws.ToString(e.Description)
		if strings.HasPrefix(text, "[Completed]") || strings.HasPrefix(text, "[Canceled]") || !slices.Contains(maintenance, string(e.Code)) {
			continue
		}
		out = append(out, cloud.Ailment{Instance: id, Kind: cloud.EventStatus, NotBefore: aws.ToTime(e.NotBefore)})
	}
	return out
}

// failingSince is when a check began to fail.
func failingSince(s *types.InstanceStatusSummary) (time.Time, bool) {
	if s == nil || s.Status != types.SummaryStatusImpaired {
		return time.Time{}, false
	}
	for _, d := range s.Details {
		if d.Status == types.StatusTypeFailed && d.ImpairedSince != nil {
			return *d.ImpairedSince, true
		}
	}
	return time.Time{}, false
}
