package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/forecast"
)

// policies lists the cluster's LimitRanges and ResourceQuotas.
func (c *cluster) policies(ctx context.Context) (forecast.Policies, error) {
	var out forecast.Policies
	for _, x := range []struct {
		path string
		add  func(json.RawMessage) error
	}{
		{"/api/v1/limitranges", func(item json.RawMessage) error { return appendJSON(&out.Ranges, item) }},
		{"/api/v1/resourcequotas", func(item json.RawMessage) error { return appendJSON(&out.Quotas, item) }},
	} {
		items, err := c.items(ctx, x.path, url.Values{})
		if err != nil {
			return out, fmt.Errorf("listing %s of cluster %s: %w", x.path[len("/api/v1/"):], c.name, err)
		}
		for _, item := range items {
			if err := x.add(item); err != nil {
				return out, fmt.Errorf("reading %s of cluster %s: %w", x.path[len("/api/v1/"):], c.name, err)
			}
		}
	}
	return out, nil
}

func appendJSON[T any](list *[]*T, item json.RawMessage) error {
	o := new(T)
	if err := json.Unmarshal(item, o); err != nil {
		return err
	}
	*list = append(*list, o)
	return nil
}

// listedPolicies are the LimitRanges and ResourceQuotas of a Kubernetes List.
func listedPolicies(list []byte) (out forecast.Policies, err error) {
	err = eachOf(list, []string{"LimitRange", "ResourceQuota"}, func(kind string, item json.RawMessage) error {
		if kind == "LimitRange" {
			return appendJSON(&out.Ranges, item)
		}
		return appendJSON(&out.Quotas, item)
	})
	return out, err
}

// heldBack says of the pools of a Kubernetes List which are held back, by what the controller has written on them.
func heldBack(list []byte, now time.Time) (map[string]string, error) {
	if !bytes.Contains(list, []byte(karpv1.FailedReplacementsAnnotationKey)) {
		return nil, nil
	}
	var held map[string]string
	err := eachOf(list, []string{"NodePool"}, func(_ string, item json.RawMessage) error {
		pool := &karpv1.NodePool{}
		if json.Unmarshal(item, pool) != nil {
			return nil // whoever reads the objects says what is wrong with them
		}
		if why := forecast.HeldBack(pool, now); why != "" {
			if held == nil {
				held = map[string]string{}
			}
			held[pool.Name] = why
		}
		return nil
	})
	return held, err
}

// eachOf reads the objects of some kinds of a Kubernetes List.
func eachOf(list []byte, kinds []string, read func(kind string, item json.RawMessage) error) error {
	there := false
	for _, kind := range kinds {
		there = there || bytes.Contains(list, []byte(`"`+kind+`"`))
	}
	if !there {
		return nil // as in most clusters: reading everything again would take as long as planning
	}
	var doc struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &doc); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	for _, item := range doc.Items {
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(item, &head) != nil {
			continue
		}
		for _, kind := range kinds {
			if head.Kind != kind {
				continue
			}
			if err := read(kind, item); err != nil {
				return fmt.Errorf("%s %s: %w", kind, head.Metadata.Name, err)
			}
		}
	}
	return nil
}
