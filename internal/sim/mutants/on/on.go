// Package on says which mutant is being played. Only files that the overlay of package mutants has changed ask it.
package on

var name string

// Set has the mutant of a name played from now on; none if it is empty.
func Set(mutant string) { name = mutant }

// Mutant says whether the mutant of a name is being played.
func Mutant(mutant string) bool { return name == mutant }

// Pick is b if the mutant of a name is being played, and a otherwise.
func Pick[T any](mutant string, a, b T) T {
	if Mutant(mutant) {
		return b
	}
	return a
}
