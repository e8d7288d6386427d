package aws

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
)

const (
	// templateIdle is how long a launch template that nobody uses is kept: long enough that a steady cluster makes none anew.
	templateIdle  = time.Hour
	templatesPage = 200
)

// templates makes launch templates and remembers which exist. The name says what is in one, so making the same one twice is
// harmless and no two launches wait for each other unless they need the same one.
type templates struct {
	client  *ec2.Client
	cluster string
	clock   Clock
	making  keyed
	pace    *kit.Pace
	// onMake is told when making one begins, and when it is done.
	onMake func(done bool)

	mu   sync.Mutex
	used map[string]time.Time // by name, when a launch needed it last
}

func newTemplates(client *ec2.Client, cluster string, clock Clock) *templates {
	return &templates{client: client, cluster: cluster, clock: clock, pace: kit.NewPace(clock, writeError), used: map[string]time.Time{}}
}

// ensure makes the template unless it exists.
func (t *templates) ensure(ctx context.Context, want *template) error {
	if t.touch(want.name, false) {
		return nil
	}
	unlock := t.making.lock(t.clock, want.name)
	defer unlock()
	if t.touch(want.name, false) {
		return nil
	}
	request := &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(want.name), LaunchTemplateData: want.data,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: toTags(want.tags)}},
	}
	err := t.pace.Do(ctx, "create launch template "+want.name, func() error {
		t.onMake(false)
		_, err := t.client.CreateLaunchTemplate(ctx, request, once)
		t.onMake(true)
		return err
	})
	if err != nil && codeOf(err) != codeTemplateExists {
		return err
	}
	t.touch(want.name, true)
	return nil
}

// touch notes the use of a template, and says whether it was known; with add it becomes so.
func (t *templates) touch(name string, add bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.used[name]
	if known || add {
		t.used[name] = t.clock.Now()
	}
	return known
}

// forget makes the next launch look again at templates that EC2 does not know.
func (t *templates) forget(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		delete(t.used, name)
	}
}

// idle says whether a template that EC2 lists has been without use for long, and if so forgets it, so that a launch that
// comes meanwhile makes it anew. One that is seen for the first time counts as used now.
func (t *templates) idle(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	last, known := t.used[name]
	switch {
	case !known:
		t.used[name] = now
		return false
	case now.Sub(last) < templateIdle:
		return false
	}
	delete(t.used, name)
	return true
}

// list returns the names of this cluster's templates, with class only those of one class.
func (t *templates) list(ctx context.Context, class string) ([]string, error) {
	filters := []types.Filter{filter("tag:"+awsv1.TagEKSClusterName, t.cluster)}
	if class != "" {
		filters = append(filters, filter("tag:"+awsv1.TagNodeClass, class))
	}
	var names []string
	pages := ec2.NewDescribeLaunchTemplatesPaginator(t.client, &ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: aws.Int32(templatesPage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError("list launch templates", err)
		}
		for _, lt := range page.LaunchTemplates {
			if name := aws.ToString(lt.LaunchTemplateName); strings.HasPrefix(name, templatePrefix) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func (t *templates) delete(ctx context.Context, name string) error {
	_, err := t.client.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String(name)})
	if err = writeError("delete launch template "+name, err); cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	return err
}

// CollectTemplates deletes launch templates that no launch has needed for an hour.
func (p *Provider) CollectTemplates(ctx context.Context) error {
	names, err := p.templates.list(ctx, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		if p.templates.idle(name) {
			if err := p.templates.delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// DeleteTemplates deletes the launch templates of a class that is going away.
func (p *Provider) DeleteTemplates(ctx context.Context, class string) error {
	names, err := p.templates.list(ctx, class)
	if err != nil {
		return err
	}
	p.templates.forget(names)
	for _, name := range names {
		if err := p.templates.delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
