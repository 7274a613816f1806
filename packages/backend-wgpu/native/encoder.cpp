// Encodes and submits recorded commands on a thread of its own, by the functions of webgpu.h of a library that is callable from
// several threads. The thread that records goes on meanwhile; what it hands over runs in the order of handing over.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

namespace {

// What webgpu.h declares, as far as it is called here; handles are pointers.
struct StringView {
    const char *data;
    size_t length;
};
struct CallbackInfo {
    void *next;
    int mode;
    void (*callback)(int status, StringView message, void *first, void *second);
    void *first, *second;
};
struct Future {
    uint64_t id;
};
struct FutureWaitInfo {
    Future future;
    uint32_t completed;
};

constexpr uint64_t kCopy = 1, kEarlyDispatch = 2;
constexpr int kWaitOnly = 1, kSuccess = 1;
constexpr uint64_t kForever = UINT64_MAX, kMapRead = 1;
// How far the recording thread may be ahead, in jobs: bounds what waits in memory.
constexpr uint64_t kMostWaiting = 256;

void nothing(int, StringView, void *, void *) {}

// Keep how something ended where the first of the callback's own arguments points to.
void keep_status(int status, StringView, void *first, void *) { *static_cast<int *>(first) = status; }

// What a loop does that waits for another thread: the other thread of its core, which may be the one that records, has it meanwhile.
inline void relax() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
    asm volatile("yield");
#endif
}

}  // namespace

extern "C" {

// The functions of the library, in this order, and its objects.
struct Library {
    void *(*create_encoder)(void *device, const void *descriptor);
    void *(*begin_pass)(void *encoder, const void *descriptor);
    void (*set_pipeline)(void *pass, void *pipeline);
    void (*set_group)(void *pass, uint32_t index, void *group, size_t count, const uint32_t *offsets);
    void (*dispatch)(void *pass, uint32_t x, uint32_t y, uint32_t z);
    void (*end_pass)(void *pass);
    void (*release_pass)(void *pass);
    void (*copy)(void *encoder, void *source, uint64_t from, void *target, uint64_t to, uint64_t size);
    void *(*finish)(void *encoder, const void *descriptor);
    void (*release_encoder)(void *encoder);
    void (*release_commands)(void *commands);
    void (*submit)(void *queue, size_t count, void *const *commands);
    void (*write)(void *queue, void *buffer, uint64_t offset, const void *data, size_t size);
    void (*destroy)(void *buffer);
    Future (*on_done)(void *queue, CallbackInfo info);
    int (*wait_any)(void *instance, size_t count, FutureWaitInfo *infos, uint64_t timeout);
    Future (*map)(void *buffer, uint64_t mode, size_t offset, size_t size, CallbackInfo info);
    const void *(*mapped)(void *buffer, size_t offset, size_t size);
    void (*unmap)(void *buffer);
    void *instance, *device, *queue;
};

// A dispatch: a pipeline (null: the one before), a group and three numbers of workgroups.
// An early dispatch: the same, with a place where the pipeline arrives.
// A copy: source, target, and where each begins, and how many bytes.
struct Command {
    uint64_t kind;
    void *first, *second;
    uint64_t numbers[3];
};

}  // extern "C"

namespace {

// Where a pipeline arrives that another thread compiles.
struct Place {
    std::atomic<void *> pipeline{nullptr};
    std::atomic<bool> refused{false};
};

// Bytes of a mappable buffer that were asked for, and how that ended. Whoever has the job's number may look when the job is done.
struct Answer {
    void *buffer = nullptr;
    size_t size = 0;
    FutureWaitInfo info{{0}, 1};
    int status = 0;
};

enum class Kind { kRun, kWrite, kDestroy };

// Commands to run, and (not null) the answer that they fill the buffer of; or bytes to write to the first command's first buffer;
// or that buffer to destroy.
struct Job {
    Kind kind = Kind::kRun;
    std::vector<Command> commands;
    std::vector<uint8_t> bytes;
    Answer *answer = nullptr;
};

class Encoder {
  public:
    Encoder(const Library &library, uint64_t spinning, uint64_t asking, uint64_t in_flight)
        : library_(library), spinning_(spinning), asking_(asking), most_in_flight_(in_flight), thread_([this] { work(); }) {}

    ~Encoder() {
        {
            std::lock_guard<std::mutex> held(mutex_);
            stopping_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }

    uint64_t give(Job &&job) {
        const uint64_t before = given_.load();
        if (before >= kMostWaiting) wait(before - kMostWaiting + 1);
        uint64_t number;
        bool asleep;
        {
            std::lock_guard<std::mutex> held(mutex_);
            jobs_.push_back(std::move(job));
            number = given_.load() + 1;
            given_.store(number);
            asleep = asleep_;
        }
        if (asleep) wake_.notify_one();
        return number;
    }

    void wait(uint64_t number) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(spinning_);
        while (done_.load() < number) {
            if (std::chrono::steady_clock::now() < until) {
                relax();
                continue;
            }
            std::unique_lock<std::mutex> held(mutex_);
            // The other thread looks at this after it has counted a job as done.
            ++waiting_;
            finished_.wait(held, [&] { return done_.load() >= number; });
            --waiting_;
        }
    }

    uint64_t done() const { return done_.load(); }

    // Take back what tells that work up to a job is done, all of which is: the library keeps it until somebody waits.
    void collect(uint64_t number) {
        std::lock_guard<std::mutex> held(futures_mutex_);
        while (!futures_.empty() && futures_.front().first <= number) finish_oldest();
    }

    // Note that the library refused what this thread does, if this is the encoder's thread.
    bool refuse() {
        if (std::this_thread::get_id() != thread_.get_id()) return false;
        refused_ = true;
        return true;
    }

    // Tell that a pipeline is there, or (null) that it will not be.
    void arrive(Place &place, void *pipeline) {
        {
            std::lock_guard<std::mutex> held(mutex_);
            place.pipeline = pipeline;
            place.refused = pipeline == nullptr;
        }
        arrived_.notify_all();
    }

    // Wait for pipelines that commands need; return whether all of them came.
    bool expect(const Command *commands, size_t count) {
        bool all = true;
        for (const Command *each = commands; each != commands + count; ++each) {
            if (each->kind != kEarlyDispatch) continue;
            const Place &place = *static_cast<const Place *>(each->first);
            if (place.pipeline.load() == nullptr) {
                std::unique_lock<std::mutex> held(mutex_);
                arrived_.wait(held, [&] { return place.pipeline.load() != nullptr || place.refused.load(); });
            }
            all = all && !place.refused.load();
        }
        return all;
    }

    // Encode commands, whose pipelines are there; passes are of a description.
    void play(void *encoder, const Command *commands, size_t count, const void *description) const {
        void *pass = nullptr;
        for (const Command *each = commands; each != commands + count; ++each) {
            const uint64_t *numbers = each->numbers;
            if (each->kind == kCopy) {
                end(pass);
                library_.copy(encoder, each->first, numbers[0], each->second, numbers[1], numbers[2]);
                continue;
            }
            if (pass == nullptr) pass = library_.begin_pass(encoder, description);
            void *pipeline = each->first;
            if (each->kind == kEarlyDispatch) pipeline = static_cast<const Place *>(pipeline)->pipeline.load();
            if (pipeline != nullptr) library_.set_pipeline(pass, pipeline);
            library_.set_group(pass, 0, each->second, 0, nullptr);
            library_.dispatch(pass, static_cast<uint32_t>(numbers[0]), static_cast<uint32_t>(numbers[1]),
                              static_cast<uint32_t>(numbers[2]));
        }
        end(pass);
    }

    // Encode commands, whose pipelines are there, and copies after them; null where the library refuses them.
    void *encode(const Command *commands, size_t count, const Command *copies, size_t copied) const {
        void *encoder = library_.create_encoder(library_.device, nullptr);
        play(encoder, commands, count, nullptr);
        play(encoder, copies, copied, nullptr);
        void *made = library_.finish(encoder, nullptr);
        library_.release_encoder(encoder);
        return made;
    }

    // Submit what was encoded, after all that was handed over, wait until it is done, and take the first bytes of a mappable buffer,
    // into which it copies them, to the host. Without sleeping for so many nanoseconds: to be woken takes tens of microseconds.
    bool fetch(void *commands, void *buffer, uint8_t *into, size_t size, uint64_t polling) {
        const uint64_t given = given_.load();
        wait(given);
        library_.submit(library_.queue, 1, &commands);
        library_.release_commands(commands);
        Answer answer{buffer, size};
        ask(answer);
        return take(answer, given, into, polling);
    }

    // Wait for what a job asked for, and take it to the host.
    bool take(Answer &answer, uint64_t job, uint8_t *into, uint64_t polling) {
        wait(job);
        const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(polling);
        FutureWaitInfo &info = answer.info;
        while (!info.completed && std::chrono::steady_clock::now() < until) library_.wait_any(library_.instance, 1, &info, 0);
        if (!info.completed) library_.wait_any(library_.instance, 1, &info, kForever);
        if (answer.status != kSuccess) return false;
        std::memcpy(into, library_.mapped(answer.buffer, 0, whole(answer.size)), answer.size);
        library_.unmap(answer.buffer);
        return true;
    }

  private:
    void work() {
        Job job;
        while (next(job)) {
            refused_ = false;
            if (job.kind == Kind::kRun) {
                run(job.commands, job.answer);
            } else {
                const Command &place = job.commands.front();
                if (job.kind == Kind::kDestroy) {
                    library_.destroy(place.first);
                } else {
                    library_.write(library_.queue, place.first, place.numbers[0], job.bytes.data(), job.bytes.size());
                }
            }
            done_.store(done_.load(std::memory_order_relaxed) + 1);
            if (waiting_.load()) {
                std::lock_guard<std::mutex> held(mutex_);
                finished_.notify_all();
            }
        }
    }

    bool next(Job &job) {
        // To be woken takes tens of microseconds.
        const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(spinning_);
        while (spinning_ && given_.load() == taken_ && std::chrono::steady_clock::now() < until) relax();
        std::unique_lock<std::mutex> held(mutex_);
        asleep_ = true;
        wake_.wait(held, [this] { return stopping_ || !jobs_.empty(); });
        asleep_ = false;
        if (jobs_.empty()) return false;
        job = std::move(jobs_.front());
        jobs_.pop_front();
        ++taken_;
        return true;
    }

    static size_t whole(size_t size) { return (size + 3) & ~size_t{3}; }

    // Ask for the bytes that what was submitted last copies to an answer's buffer.
    void ask(Answer &answer) const {
        const CallbackInfo info{nullptr, kWaitOnly, keep_status, &answer.status, nullptr};
        answer.info = {library_.map(answer.buffer, kMapRead, 0, whole(answer.size), info), 0};
    }

    void run(const std::vector<Command> &commands, Answer *answer) {
        if (!expect(commands.data(), commands.size())) return;
        void *made = encode(commands.data(), commands.size(), nullptr, 0);
        // Submitting what the library refused can end the process.
        if (made != nullptr && !refused_) {
            library_.submit(library_.queue, 1, &made);
            if (answer != nullptr) ask(*answer);
            if (++submits_ % asking_ == 0) keep_up();
        }
        if (made != nullptr) library_.release_commands(made);
    }

    void end(void *&pass) const {
        if (pass == nullptr) return;
        library_.end_pass(pass);
        library_.release_pass(pass);
        pass = nullptr;
    }

    // Wait where the GPU is too far behind.
    void keep_up() {
        const CallbackInfo info{nullptr, kWaitOnly, nothing, nullptr, nullptr};
        std::lock_guard<std::mutex> held(futures_mutex_);
        futures_.emplace_back(done_.load(std::memory_order_relaxed) + 1, library_.on_done(library_.queue, info));
        while (futures_.size() > most_in_flight_) finish_oldest();
    }

    void finish_oldest() {
        FutureWaitInfo info{futures_.front().second, 0};
        library_.wait_any(library_.instance, 1, &info, kForever);
        futures_.pop_front();
    }

    const Library library_;
    const uint64_t spinning_, asking_, most_in_flight_;
    std::mutex mutex_, futures_mutex_;
    std::condition_variable wake_, finished_, arrived_;
    std::deque<Job> jobs_;
    std::deque<std::pair<uint64_t, Future>> futures_;
    std::atomic<uint64_t> given_{0}, done_{0};
    std::atomic<int> waiting_{0};
    uint64_t taken_ = 0, submits_ = 0;
    bool asleep_ = false, stopping_ = false, refused_ = false;
    // Last: it begins to work when it is made.
    std::thread thread_;
};

}  // namespace

extern "C" {

// How many functions and objects of the library it takes: who has another table was written for another encoder.
EXPORTED uint64_t encoder_table() { return sizeof(Library) / sizeof(void *); }

EXPORTED void *encoder_new(const Library *library, uint64_t spinning, uint64_t asking, uint64_t in_flight) {
    return new Encoder(*library, spinning, asking, in_flight);
}

EXPORTED void encoder_free(void *encoder) { delete static_cast<Encoder *>(encoder); }

EXPORTED void *encoder_place() { return new Place; }

EXPORTED void encoder_forget(void *place) { delete static_cast<Place *>(place); }

EXPORTED void encoder_arrive(void *encoder, void *place, void *pipeline) {
    static_cast<Encoder *>(encoder)->arrive(*static_cast<Place *>(place), pipeline);
}

EXPORTED int encoder_expect(void *encoder, const Command *commands, size_t count) {
    return static_cast<Encoder *>(encoder)->expect(commands, count);
}

EXPORTED void encoder_play(void *encoder, void *into, const Command *commands, size_t count, const void *description) {
    static_cast<Encoder *>(encoder)->play(into, commands, count, description);
}

EXPORTED void *encoder_encode(void *encoder, const Command *commands, size_t count, const Command *copies, size_t copied) {
    return static_cast<Encoder *>(encoder)->encode(commands, count, copies, copied);
}

EXPORTED int encoder_fetch(void *encoder, void *commands, void *buffer, uint8_t *into, size_t size, uint64_t polling) {
    return static_cast<Encoder *>(encoder)->fetch(commands, buffer, into, size, polling);
}

EXPORTED uint64_t encoder_run(void *encoder, const Command *commands, size_t count) {
    Job job;
    job.commands.assign(commands, commands + count);
    return static_cast<Encoder *>(encoder)->give(std::move(job));
}

EXPORTED void *encoder_answer() { return new Answer; }

// One that was asked for and not taken stays: the library may still tell it how that ended.
EXPORTED void encoder_forget_answer(void *answer) {
    Answer *const given = static_cast<Answer *>(answer);
    if (given->info.completed) delete given;
}

EXPORTED uint64_t encoder_ask(void *encoder, const Command *commands, size_t count, const Command *copies, size_t copied, void *answer,
                              void *buffer, size_t size) {
    Job job;
    job.commands.reserve(count + copied);
    job.commands.assign(commands, commands + count);
    job.commands.insert(job.commands.end(), copies, copies + copied);
    job.answer = static_cast<Answer *>(answer);
    *job.answer = {buffer, size};
    return static_cast<Encoder *>(encoder)->give(std::move(job));
}

EXPORTED int encoder_take(void *encoder, void *answer, uint64_t job, uint8_t *into, uint64_t polling) {
    return static_cast<Encoder *>(encoder)->take(*static_cast<Answer *>(answer), job, into, polling);
}

EXPORTED uint64_t encoder_write(void *encoder, void *buffer, uint64_t offset, const uint8_t *data, size_t size) {
    Job job{Kind::kWrite, {Command{0, buffer, nullptr, {offset, 0, 0}}}, {data, data + size}};
    return static_cast<Encoder *>(encoder)->give(std::move(job));
}

EXPORTED uint64_t encoder_destroy(void *encoder, void *buffer) {
    Job job{Kind::kDestroy, {Command{0, buffer, nullptr, {0, 0, 0}}}, {}};
    return static_cast<Encoder *>(encoder)->give(std::move(job));
}

EXPORTED void encoder_wait(void *encoder, uint64_t number) { static_cast<Encoder *>(encoder)->wait(number); }

EXPORTED uint64_t encoder_done(void *encoder) { return static_cast<Encoder *>(encoder)->done(); }

EXPORTED void encoder_collect(void *encoder, uint64_t number) { static_cast<Encoder *>(encoder)->collect(number); }

EXPORTED int encoder_refuse(void *encoder) { return static_cast<Encoder *>(encoder)->refuse(); }

}  // extern "C"
