package awsplug

import "testing"

func TestO57_WhatOnlyAsks(t *testing.T) {
	for action, want := range map[string]bool{"DescribeInstances": true, "GetParameter": true, "CreateFleet": false, "TerminateInstances": false, "DeleteMessage": false} {
		if asking(action) != want {
			t.Errorf("asking(%s) is %t", action, !want)
		}
	}
}
