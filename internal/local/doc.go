// Package local puts a whole cluster on one computer: the control plane built from kube/, our kinds in it, and the
// conversion between their versions. It owns the folder that it is given and everything that it starts.
package local
