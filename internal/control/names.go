package control

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MaxNamed is how many things a log line names before it counts the rest (O53).
const MaxNamed = 5

// FirstFew names the first few and counts the rest.
func FirstFew(names []string) string { return Named(names[:min(len(names), MaxNamed)], len(names)) }

// Named names some of count things, and counts the others.
func Named(names []string, count int) string {
	text := strings.Join(names, ", ")
	if more := count - len(names); more > 0 {
		text += fmt.Sprintf(" and %d other(s)", more)
	}
	return text
}

// Ready says whether the kubelet reports the node Ready.
func Ready(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
