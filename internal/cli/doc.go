// Package cli holds the commands of the program. A command reads its input, calls the function that decides, and prints; what
// it prints to is given to it. Nothing here changes a cluster.
package cli
