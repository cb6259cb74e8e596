package mutant

// All lists the mutants in the order of their sources.
func All() []*Mutant {
	return []*Mutant{
		unguardedMonitor(), deadLetterFailsRunning(), statusOnlyGuard(), unguardedFinish(), noRepublish(), noClaimSweep(),
		unknownIsRefused(), unguardedClaim(), noLeaseMonitor(), sameNameOrphans(), noSelfFence(), directDLX(), lateClaim(),
		noTerminalSweep(), oneStatementForAllChildren(), badChainEndsThePass(), oneBatchAPass(), resultGivenUp(), handledTwice(), hoardedDeadLetters(), drainingLooksDead(), heartbeatStopsFirst(), heartbeatGivesUpEarly(), killedIsCompleted(), retryAtOnce(),
		retryUnbounded(), noBrake(), brakeCountsThePresent(), brakeForEver(), reapAtFirstSight(), noWarmUp(),
		oneClockLease(), oneClockDeadline(), deadlineWithoutGrace(), wallClockFence(), marginWithoutDrift(), deafAfterCancel(), topologyDeclaredOnce(), returnedIsConfirmed(),
		claimRolledBack(), resultRolledBack(), deadLetterDropped(), twinsShareAnIncarnation(),
		silentBrake(), alertForEver(), goneWorkersCount(), sickLookHealthy(), emptyArchive(), neverOld(),
		depthCountsRows(), unattendedUntold(), canariesCounted(), canaryAtStartOnly(), everyFailureIsTheWorkers(), waitingIsHandoff(), workersReportForExecutors(),
		timedFromDelivery(), failuresWithoutReasons(),
		deathReasonIgnored(), deadLetterGivenUp(), poisonRequeued(), poisonDropped(),
		malformedRejected(), hintObeyedUnasked(), bodiesStoredWhole(), looksAtItsQueueOnly(), canaryOnTheOwnConnection(),
		staleIsFresh(), staleIsUnsaid(), deafIsAlive(), firstAvailable(), permanentQuarantine(), actionFailuresBlamed(), unhealthyLast(),
		totalQuarantine(), probeReactivates(), cordonIgnored(), anyRuntime(),
		keyLookedUp(), keysForgottenTooLate(), childLost(), doubleRelease(), countedSlots(), slotLeaked(), graceBeginsAnew(), cancelMissesRetry(), childStartsEarly(), lostCancel(), cancelOverCompleted(),
		countsAtAFullWorker(), blamesAFullWorker(), leaseRefusalEndsTheSession(), oneClockDispatch(), oneClockFleet(), deliveryHeldForHours(),
		unpublishedIsBlamed(), oneDispatchTimeout(), unknownClaimRuns(), pinIgnored(), parksThePinned(), claimedByAll(), noRunDeadline(), noBackstop(), secondFreshness(), oneAtATime(), cancelOverwrites(),
		fencesBetweenBeats(), endsRunsEarly(), fullIsNoWorker(), failureIsALoss(),
		observesAndActs(), observesInSilence(), observesAgain(), observesEarly(), probesDecide(), probesAskForLife(),
		limitsDropped(), retryForgetsLimits(), runsByItsAction(),
		unboundedPark(), parksWhatWaits(), pollsTooOften(), sentTwice(), batchesCutShort(),
	}
}
