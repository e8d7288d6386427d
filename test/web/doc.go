// Package web looks at the dashboard of a whole local cluster with a real browser: what happens in the cluster appears on
// the page.
package web
