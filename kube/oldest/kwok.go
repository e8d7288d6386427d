package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// runKwok hands over to the kwok of bin/kube, which lies beside this binary: kwok is a client like any other, and the versions of it
// that are built from this old a Kubernetes do not know what we ask of it.
func runKwok() int {
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(filepath.Join(filepath.Dir(self), "kube"), append([]string{"kwok"}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "kwok: running the one of bin/kube: %v\n", err)
	return 1
}
