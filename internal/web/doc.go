// Package web shows what the controller sees and decides: a JSON API over the newest view and the ledger, a stream of changes,
// and a dashboard that is made of both.
//
// It only reads. Everything it shows is made of names, labels, requests, prices and reasons: a pod's environment, commands and
// volumes never reach it. The page is embedded, asks no other host for anything, and uses relative addresses only, so that it
// also works behind kubectl port-forward and the API server's proxy. Whoever serves a Handler decides where, and who may see
// it: Options.Authorize is asked for every answer that holds data. The package has no clock of its own; streams wait on timers.
package web
