package cli

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"karpenter/internal/explain"
)

const (
	// completeTime bounds how long a shell waits for names.
	completeTime = 2 * time.Second
	// completeMost bounds how many names a shell is given.
	completeMost = 500
)

// completePaths are where names of a kind are listed.
var completePaths = map[string]string{
	"pod": "/api/v1/pods", "node": "/api/v1/nodes", "nodeclaim": "/apis/karpenter.sh/v1/nodeclaims", "nodepool": "/apis/karpenter.sh/v1/nodepools",
	"move":       "/apis/karpenter.sh/v1/nodeclaims", // moves stand on claims
	"deployment": "/apis/apps/v1/deployments", "statefulset": "/apis/apps/v1/statefulsets", "daemonset": "/apis/apps/v1/daemonsets",
	"replicaset": "/apis/apps/v1/replicasets", "job": "/apis/batch/v1/jobs", "namespace": "/api/v1/namespaces",
}

// CompleteNames completes the name of an object of a kind, of one that lives in a namespace in that one ("" for all), from the cluster of
// the kubeconfig. Where there is none, it completes nothing.
func (s *Source) CompleteNames(ctx context.Context, kind, namespace, begun string) ([]string, cobra.ShellCompDirective) {
	path, known := completePaths[kind]
	if !known || s.snapshot != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if ctx == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	found, err := s.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if spaced(kind) && namespace != "" {
		path = strings.Replace(path, "/v1/", "/v1/namespaces/"+url.PathEscape(namespace)+"/", 1)
	}
	items, err := found.items(ctx, path, url.Values{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, item := range items {
		for _, name := range namesIn(kind, item) {
			if strings.HasPrefix(name, begun) && len(names) < completeMost && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// namesIn are the names that an object of a list stands for: its own, or those of the moves that it is part of.
func namesIn(kind string, item json.RawMessage) []string {
	var o struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	switch {
	case json.Unmarshal(item, &o) != nil:
		return nil
	case kind == "move":
		return explain.MoveIDs(o.Metadata.Annotations)
	}
	return []string{o.Metadata.Name}
}

// spaced says whether objects of a kind live in namespaces.
func spaced(kind string) bool {
	return !slices.Contains([]string{"node", "nodeclaim", "nodepool", "move", "namespace"}, kind)
}

// completeAccess completes the flags that say which cluster, and where in it.
func (s *Source) completeAccess(cmd *cobra.Command) {
	complete := map[string]cobra.CompletionFunc{
		"namespace": func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return s.CompleteNames(cmd.Context(), "namespace", "", begun)
		},
		"context": func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return s.completeContexts(begun), cobra.ShellCompDirectiveNoFileComp
		},
	}
	for _, flag := range []string{"as", "as-group", "request-timeout", "controller"} {
		complete[flag] = cobra.NoFileCompletions
	}
	for flag, function := range complete {
		_ = cmd.RegisterFlagCompletionFunc(flag, function) // it fails only for a flag that the command does not have
	}
}

// completeContexts completes the name of a context of the kubeconfig.
func (s *Source) completeContexts(begun string) []string {
	raw, err := s.config().RawConfig()
	if err != nil {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(raw.Contexts)) {
		if strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names
}

// completeWords completes flags that take one of a few words.
func completeWords(cmd *cobra.Command, words map[string][]string) {
	for flag, list := range words {
		// It fails only for a flag that the command does not have, and then there is nothing to complete.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
	}
}
