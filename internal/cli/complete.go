package cli

import (
	"context"
	"encoding/json"
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
	"move": "/apis/karpenter.sh/v1/nodeclaims", // moves stand on claims
}

// CompleteNames completes the name of a pod (in a namespace; "" for all), node, nodeclaim, nodepool or move from the cluster of the
// kubeconfig. Where there is none, it completes nothing.
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
	if kind == "pod" && namespace != "" {
		path = "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods"
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

// completeWords completes flags that take one of a few words.
func completeWords(cmd *cobra.Command, words map[string][]string) {
	for flag, list := range words {
		// It fails only for a flag that the command does not have, and then there is nothing to complete.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
	}
}
