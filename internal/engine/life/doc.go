// Package life decides what happens next to a claim, its instance and its node: launch, registration, initialization,
// time-outs, expiry, and whether something that cannot be found is really gone.
//
// Everything is a function of plain values and of now. The caller reads the objects, asks for the next step, carries it out
// and asks again; it must give the same facts twice without harm. Nothing here does I/O, sleeps or keeps a clock.
package life
