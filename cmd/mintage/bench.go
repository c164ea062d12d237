package main

import "github.com/spf13/cobra"

func newBench(s *settings) *cobra.Command { return &cobra.Command{Use: "bench"} }
