package web

// LookEvery is what a change may have to wait before a stream sees it.
const LookEvery = lookEvery
