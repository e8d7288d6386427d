// Package plug is the socket that providers are plugged into: what the controller asks of a provider besides package cloud, and what it
// gives it. A Plugin is what a program holds of each provider; the one that the setting PROVIDER names makes a Cloud, which has its
// settings read, connects, finds its cluster and is wired, in this order. The package decides nothing.
package plug
