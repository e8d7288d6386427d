// Package validation holds the admission rules of our kinds against a real API server. The cases are text, in testdata:
// each file has a manifest that is accepted, and changes to it that are accepted or refused with a message. Nothing here
// is linked into the program.
package validation
