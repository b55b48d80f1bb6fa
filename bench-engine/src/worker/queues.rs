//! What a worker shares with the feeder and the record reader: queues of fixed size, without a lock.

use crate::conn::Job;
use crate::record::{Block, Blocks, Finished};
use crate::units::{Instant, WallInstant};
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most requests ready for the canaries of all workers.
const CANARY_SUPPLY: usize = 256;

/// What workers share with the feeder and the record reader. All of it lock-free and of fixed size.
#[derive(Debug)]
pub struct Shared {
    /// Requests in order of their trace, which is that of their dues under [`super::Load::Open`]; under
    /// [`super::Load::Sessions`] in no order.
    pub supply: ArrayQueue<Job>,
    /// Requests for the canaries: any worker's takes the next one.
    pub canary_supply: ArrayQueue<Job>,
    /// Nothing more will be put into the supply in this window.
    pub supply_over: AtomicBool,
    /// Empty blocks.
    pub pool: ArrayQueue<Block>,
    /// To the record reader.
    pub messages: ArrayQueue<Message>,
    /// End the window now: what runs is censored.
    pub stop: AtomicBool,
    /// Times a worker had to wait for the record reader.
    pub reader_waits: AtomicU64,
}

impl Shared {
    /// Queues for `slots` connections, `blocks` blocks and a supply of `depth` requests.
    pub fn new(slots: usize, blocks: usize, depth: usize) -> Self {
        let pool = ArrayQueue::new(blocks);
        while pool.push(Block::default()).is_ok() {}
        Shared {
            supply: ArrayQueue::new(depth.max(1)),
            canary_supply: ArrayQueue::new(CANARY_SUPPLY),
            supply_over: AtomicBool::new(false),
            messages: ArrayQueue::new(blocks + slots + 256),
            pool,
            stop: AtomicBool::new(false),
            reader_waits: AtomicU64::new(0),
        }
    }

    /// Hands a message to the record reader; waits when that is behind by the whole queue, and counts it.
    pub fn post(&self, message: Message) {
        let mut message = message;
        while let Err(back) = self.messages.push(message) {
            self.reader_waits.fetch_add(1, Ordering::Relaxed);
            message = back;
            std::thread::yield_now();
        }
    }
}

/// From a worker to the record reader.
#[allow(clippy::large_enum_variant)] // boxing the large one would allocate on a worker
#[derive(Debug)]
pub enum Message {
    /// A full block of the tape of the request on `conn`.
    Block {
        /// Worker.
        worker: u32,
        /// Slot.
        conn: u32,
        /// The block.
        block: Block,
    },
    /// A request is over. Its last block is inside.
    Finished(u32, Finished),
    /// A TX stamp that came after its request was over.
    LateWireOut {
        /// Worker.
        worker: u32,
        /// Number of the send.
        sequence: u64,
        /// The stamp.
        wall: WallInstant,
        /// When it was read.
        at: Instant,
    },
}

/// Where the tape of one slot takes its blocks from and leaves them, for the duration of one call.
pub(super) struct SlotBlocks<'a> {
    pub(super) queues: &'a Shared,
    pub(super) worker: u32,
    pub(super) slot: u32,
    /// Times the pool had no block.
    pub(super) exhausted: u32,
}

impl Blocks for SlotBlocks<'_> {
    fn take(&mut self) -> Option<Block> {
        let block = self.queues.pool.pop();
        self.exhausted += u32::from(block.is_none());
        block
    }
    fn full(&mut self, block: Block) {
        self.queues.post(Message::Block { worker: self.worker, conn: self.slot, block });
    }
}
