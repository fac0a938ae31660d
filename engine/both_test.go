package engine

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"ringlog/engine/plan"
)

const everyStoryHasAJournal = "the flag -journal gives every story of the package a journal already"

// Rule 3: there are two ways to durable, and no story may depend on which. Each is
// told once more with the smallest journal that there is, whose frames are small
// too: logs change their way all the time, the ring wraps and is trimmed. (Those that are
// missing here have no log, or set a journal of their own.)
func TestStoriesWithAJournal(t *testing.T) {
	if *journalBytes != 0 {
		t.Skip(everyStoryHasAJournal)
	}
	*journalBytes = plan.JournalBytesMin
	defer func() { *journalBytes = 0 }()
	for _, story := range []func(*testing.T){
		TestNumberOfShardsChanges, TestDirectoriesAreRemovedOnce,
		TestEpochWhoseBatchesWereLost, TestEpochEnds,
		TestFailedFlushPoisonsTheLog, TestFailedFlushOfEverythingPoisonsTheShard,
		TestFullDiskRefusesProducesUntilThereIsSpace, TestFullDiskIsFreedByDeletingRecords, TestFullDiskIsStartedAgain, TestReserveIsGivenAndComesBack, TestPreparedSpaceMakesRoomForTheManifest,
		TestMissingFileDescriptorsPoisonNothing, TestAppendsWaitForMemoryInOrder, TestQuietLogsGiveUpTheirMemory,
		TestCorruptionInTheMiddleIsFenced, TestLostDurableTailFencesTheLog, TestScrubFindsWhatHasRotted, TestScrubGivesWay,
		TestVanishedSegment, TestVanishedActiveSegment, TestDamageGoesWithItsOffsets, TestDiskThatDoesNotAnswer,
		TestSideFilesAreRebuilt, TestNewerFormatIsRefused, TestLostManifestIsNotAnEmptyLog,
		TestReadOverSeveralShards, TestReadWaitsOnSeveralShards, TestReadOverSeveralShardsEnds, TestReadOverSeveralShardsKeepsItsBound,
		TestReadOverSeveralShardsWithAnError, TestReadOverSeveralShardsAbandoned,
		TestProduceIsAnsweredWhenDurableAndCanBeRead,
		TestLogMoves, TestRequestsDuringAMove, TestMovesThatCannotBe, TestEndDuringAMove, TestMovesUnderLoad,
		TestTailReadsAreSlicesOfTheTail, TestOnlyTheFirstBatchMayExceedTheLimit, TestColdBatchLargerThanAPiece,
		TestColdReadsLargerThanTheColdMemory, TestReadWaitsForBytesOrTime, TestTimeHints, TestColdReadBehindASparseIndex,
		TestSegmentsRollAtTheirSizeAndAreNamedByOffset, TestBatchLargerThanASegment, TestSideStateBoundsRecovery,
		TestFilesOpenAreBounded, TestPrewrittenSpace, TestFirstAppendAfterACleanStartDoesNotWaitForTheClock,
		TestLogsAreDealtRoundAndStay, TestManyCreationsShareTheTable, TestPlacementTableLostOrDamaged, TestGroupOverSeveralShards,
		TestMetricsOfShards, TestShardsOnThreads, TestShardsEndUnderReads,
		TestRetention, TestFutureTimestampsDoNotPinSegments, TestRelaxedLogIsFlushedInTime, TestRelaxedLogNeedsNoFlushToGoOn,
		TestDeleteAndUnknown, TestCutIsFinishedFromAnyStep, TestPowerCuts,
	} {
		name := runtime.FuncForPC(reflect.ValueOf(story).Pointer()).Name()
		t.Run(strings.TrimPrefix(name[strings.LastIndex(name, ".")+1:], "Test"), story)
	}
}
