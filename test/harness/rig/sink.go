package rig

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sink keeps the events that it is told, each as the Go type and the name of its object, its type, its reason and its message.
type Sink struct {
	mu   sync.Mutex
	told []string
}

// Event keeps one event.
func (s *Sink) Event(obj runtime.Object, kind, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf("%s%s %s: %s", about(obj.(client.Object)), kind, reason, message))
}

// Eventf keeps one event.
func (s *Sink) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	s.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf keeps one event, without its annotations.
func (s *Sink) AnnotatedEventf(obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	s.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

// All are the events so far.
func (s *Sink) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// Has says whether an event about the object begins like that: type, reason, message.
func (s *Sink) Has(obj client.Object, begin string) bool {
	return slices.ContainsFunc(s.All(), func(e string) bool { return strings.HasPrefix(e, about(obj)+begin) })
}

func about(obj client.Object) string { return fmt.Sprintf("%T %s ", obj, obj.GetName()) }
