package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/aws/shape"
)

// imagesPage is the page size for images.
const imagesPage = 1000

// defaultOwners are whose images a name may find when no owner is given: names are free for anybody to choose.
var defaultOwners = []string{"self", "amazon"}

// imageQuery is one call that finds images.
type imageQuery struct {
	filters []types.Filter
	owners  []string
}

// candidate is an image with what instances it is for.
type candidate struct {
	image types.Image
	needs []corev1.NodeSelectorRequirement
}

// findImages finds the images that the class selects: for every kind of instance the best one, newest first.
func (p *Provider) findImages(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.AMI, error) {
	variants, queries, err := p.imageQueries(ctx, class)
	if err != nil {
		return nil, err
	}
	var found []candidate
	for _, q := range queries {
		images, err := p.describeImages(ctx, class.Name, q)
		if err != nil {
			return nil, err
		}
		for _, image := range images {
			found = append(found, candidates(image, variants[aws.ToString(image.ImageId)], class.AMIFamily())...)
		}
	}
	return bestImages(found, p.opt.Clock.Now()), nil
}

// imageQueries turns the class's terms into calls. variants says, by image id, what an alias uses the image for.
func (p *Provider) imageQueries(ctx context.Context, class *awsv1.EC2NodeClass) (variants map[string][]variant, queries []imageQuery, err error) {
	alias, isAlias, err := class.Alias()
	if err != nil {
		return nil, nil, &cloud.Error{Class: cloud.Invalid, Op: "find images of class " + class.Name, Reason: awsv1.ReasonUnsupportedAlias, Err: err}
	}
	var ids []string
	if isAlias {
		if variants, err = p.resolveAlias(ctx, class.Name, alias); err != nil {
			return nil, nil, err
		}
		for id := range variants {
			ids = append(ids, id)
		}
	}
	for _, term := range class.Spec.AMISelectorTerms {
		switch {
		case term.Alias != "":
		case term.ID != "":
			ids = append(ids, term.ID)
		case term.SSMParameter != "":
			id, err := p.parameters.get(ctx, term.SSMParameter, false)
			if err != nil {
				return nil, nil, err
			}
			if id != "" {
				ids = append(ids, id)
			}
		default:
			queries = append(queries, termQuery(term))
		}
	}
	if slices.Sort(ids); len(ids) > 0 {
		queries = append(queries, imageQuery{filters: []types.Filter{filter("image-id", slices.Compact(ids)...)}})
	}
	return variants, queries, nil
}

func termQuery(term awsv1.AMISelectorTerm) imageQuery {
	q := imageQuery{filters: tagFilters(term.Tags)}
	if term.Name != "" {
		q.filters = append(q.filters, filter("name", term.Name))
		q.owners = defaultOwners
	}
	if term.Owner != "" {
		q.owners = []string{term.Owner}
	}
	return q
}

// resolveAlias asks SSM for the images of an alias. Images that AWS does not publish for this version are left out; when it
// publishes none, the error names the aliases that it does publish.
func (p *Provider) resolveAlias(ctx context.Context, class string, alias awsv1.Alias) (map[string][]variant, error) {
	variants := map[string][]variant{}
	for _, image := range aliasImages(alias, p.opt.Cluster.Version) {
		id, err := p.parameters.get(ctx, image.path, alias.Pinned())
		if err != nil {
			return nil, err
		}
		if id != "" {
			variants[id] = append(variants[id], image.variant)
		}
	}
	if len(variants) > 0 {
		return variants, nil
	}
	cure := "no alias has images for it"
	if others := p.publishedAliases(ctx); len(others) > 0 {
		cure = "use one of " + strings.Join(others, ", ")
	}
	return nil, &cloud.Error{
		Class: cloud.Invalid, Op: "find images of class " + class, Reason: awsv1.ReasonUnsupportedAlias,
		Err: fmt.Errorf("spec.amiSelectorTerms: AWS publishes no image of alias %s for Kubernetes %s; %s", alias, p.opt.Cluster.Version, cure),
	}
}

// publishedAliases lists the aliases that have images for the cluster's version, as far as SSM answers.
func (p *Provider) publishedAliases(ctx context.Context) []string {
	var names []string
	for _, family := range []string{
		awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket, awsv1.AMIFamilyAL2, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025, awsv1.AMIFamilyWindows2019,
	} {
		alias := awsv1.Alias{Family: family, Version: awsv1.AliasVersionLatest}
		if id, err := p.parameters.get(ctx, aliasImages(alias, p.opt.Cluster.Version)[0].path, false); err == nil && id != "" {
			names = append(names, alias.String())
		}
	}
	return names
}

func (p *Provider) describeImages(ctx context.Context, class string, q imageQuery) ([]types.Image, error) {
	var out []types.Image
	pages := ec2.NewDescribeImagesPaginator(p.opt.Clients.EC2, &ec2.DescribeImagesInput{
		Filters: append(q.filters, filter("state", "available")), Owners: q.owners, IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(imagesPage),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, readError("list images of class "+class, err)
		}
		out = append(out, page.Images...)
	}
	return out, nil
}

// candidates says what instances an image is for: those of its architecture, and with an alias those of its variants.
func candidates(image types.Image, variants []variant, family string) []candidate {
	arch := shape.AMD64
	switch image.Architecture {
	case types.ArchitectureValuesX8664:
	case types.ArchitectureValuesArm64:
		arch = shape.ARM64
	default:
		return nil
	}
	base := corev1.NodeSelectorRequirement{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}
	if len(variants) == 0 {
		return []candidate{{image, []corev1.NodeSelectorRequirement{base}}}
	}
	var out []candidate
	for _, v := range variants {
		needs := append(variantNeeds(v, family), base)
		slices.SortFunc(needs, func(a, b corev1.NodeSelectorRequirement) int {
			return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), strings.Compare(a.Key, b.Key))
		})
		out = append(out, candidate{image, needs})
	}
	return out
}

// bestImages keeps, of images for the same instances, the one that its owner has not deprecated, then the newest, then the one
// with the larger name.
func bestImages(found []candidate, now time.Time) []awsv1.AMI {
	best := map[string]candidate{}
	for _, c := range found {
		key, _ := json.Marshal(c.needs)
		if old, ok := best[string(key)]; !ok || better(c.image, old.image, now) {
			best[string(key)] = c
		}
	}
	keys := make([]string, 0, len(best))
	for key := range best {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, y := best[a].image, best[b].image
		return cmp.Or(strings.Compare(aws.ToString(y.CreationDate), aws.ToString(x.CreationDate)), strings.Compare(aws.ToString(x.ImageId), aws.ToString(y.ImageId)), strings.Compare(a, b))
	})
	out := make([]awsv1.AMI, len(keys))
	for i, key := range keys {
		c := best[key]
		out[i] = awsv1.AMI{ID: aws.ToString(c.image.ImageId), Name: aws.ToString(c.image.Name), Deprecated: deprecated(c.image, now), Requirements: c.needs}
	}
	return out
}

func better(a, b types.Image, now time.Time) bool {
	if x, y := deprecated(a, now), deprecated(b, now); x != y {
		return y
	}
	order := cmp.Or(strings.Compare(aws.ToString(a.CreationDate), aws.ToString(b.CreationDate)), strings.Compare(aws.ToString(a.Name), aws.ToString(b.Name)), strings.Compare(aws.ToString(a.ImageId), aws.ToString(b.ImageId)))
	return order > 0
}

func deprecated(image types.Image, now time.Time) bool {
	at, err := time.Parse(time.RFC3339, aws.ToString(image.DeprecationTime))
	return err == nil && now.After(at)
}
