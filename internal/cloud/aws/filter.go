package aws

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// anyValue in a selector's tags matches every value.
const anyValue = "*"

// tagFilters asks for objects that have all the tags.
func tagFilters(tags map[string]string) []types.Filter {
	var filters []types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if value := tags[key]; value == anyValue {
			filters = append(filters, filter("tag-key", key))
		} else {
			filters = append(filters, filter("tag:"+key, value))
		}
	}
	return filters
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// toTags puts a map into EC2's form, in order.
func toTags(tags map[string]string) []types.Tag {
	out := make([]types.Tag, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}

func fromTags(tags []types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}
