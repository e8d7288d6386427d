// Package local starts the whole cluster of internal/local as a user would and looks at it from outside: through the API
// server, through kubectl, and through the AWS SDK.
package local
