"""`paceline chat` at a terminal and in a pipe: lines, history, commands, colours."""
import fcntl
import os
import pathlib
import pty
import re
import resource
import select
import signal
import subprocess
import termios
import time

import pytest

PACELINE = os.environ["PACELINE_BIN"]
MODEL = ["--model", "hash", "--chat-template", "chatml", "--max-tokens", "24", "--ignore-eos", "--temperature", "0.3"]


def piped(text, *arguments, environment={}):
    return subprocess.run([PACELINE, "chat", *MODEL, *arguments], input=text, capture_output=True, text=True, timeout=60,
                          errors="replace", env=os.environ | environment)


class Terminal:
    """A chat whose three streams are a terminal."""

    def __init__(self, home, *arguments, environment={}, prompt="> "):
        self.master, slave = pty.openpty()
        clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "XDG_STATE_HOME")}
        self.process = subprocess.Popen(
            [PACELINE, "chat", *MODEL, *arguments], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=clean | {"HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8"} | environment,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        )
        os.close(slave)
        self.seen = b""
        self.wait_for(prompt)

    def wait_for(self, text, seconds=60):
        """Reads until `text` appears; returns all up to there and forgets it."""
        end = time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.master], [], [], 1)[0]:
                self.seen += os.read(self.master, 65536)
        before, _, self.seen = self.seen.partition(text.encode())
        return before.decode(errors="replace")

    def type(self, keys):
        os.write(self.master, keys.encode())

    def say(self, line):
        """Types a line; returns what follows up to the next prompt."""
        self.type(line + "\n")
        return self.wait_for("\n> ")

    def end(self):
        self.type("\x04")
        end = time.monotonic() + 30
        try:
            while time.monotonic() < end:
                if select.select([self.master], [], [], 1)[0]:
                    self.seen += os.read(self.master, 65536)
        except OSError:  # the other side is closed
            pass
        assert time.monotonic() < end, ("it does not end", self.seen)
        code = self.process.wait(timeout=30)
        os.close(self.master)
        return code


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def open_one(*arguments, **options):
        opened.append(Terminal(tmp_path, *arguments, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def replies(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_pipe_gets_the_replies_alone():
    done = piped("abcabc\n")
    assert len(replies(done)) > 5 and ">" in done.stderr and "\x1b" not in done.stdout + done.stderr


def test_an_empty_line_is_no_message_and_no_end():
    assert replies(piped("\nabcabc\n\n  \n")) == replies(piped("abcabc\n"))


def test_a_conversation_goes_on_and_new_forgets_it():
    twice = replies(piped("abcabc\nabcabc\n")).splitlines()
    anew = replies(piped("abcabc\n/new\nabcabc\n")).splitlines()
    assert anew[: len(anew) // 2] == anew[len(anew) // 2 :] and twice != anew


def test_the_system_prompt_changes_replies():
    plain, flag = replies(piped("abcabc\n")), replies(piped("abcabc\n", "--system", "Be brief."))
    command = replies(piped("/system Be brief.\nabcabc\n"))
    removed = replies(piped("/system\nabcabc\n", "--system", "Be brief."))
    assert flag == command != plain and removed == plain


def test_lines_are_joined_to_messages():
    joined = replies(piped("one\\\ntwo\n"))
    assert joined == replies(piped('"""one\ntwo"""\n')) == replies(piped('"""\none\ntwo\n"""\n'))
    assert joined != replies(piped("one\ntwo\n"))


@pytest.mark.parametrize("end", ["\\", "\\\n"])
def test_a_last_line_that_goes_on_is_a_message(end):
    assert replies(piped("one\\\ntwo" + end)) == replies(piped("one\\\ntwo\n"))


def test_quotes_that_are_not_closed_are_wrong_usage():
    done = piped('abcabc\n"""one\ntwo\n')
    assert done.returncode == 2 and done.stderr.endswith('paceline: the message has no closing """\n')
    assert done.stdout == replies(piped("abcabc\n")), "the messages before are answered"


def test_commands_are_told_from_messages():
    done = piped("/draftr ngram\n/xyzzy\n/drafter\n/drafter nobody\n/help\n")
    assert done.returncode == 0 and done.stdout == ""
    assert "no command /draftr; did you mean /drafter?" in done.stderr and "no command /xyzzy; /help" in done.stderr
    assert "Drafters: none, ngram, suffix, prediction, forced, auto. Now: auto." in done.stderr
    assert "There is no drafter nobody." in done.stderr and "/race [MESSAGE]" in done.stderr
    assert piped("/usr/bin\n").stdout != ""


def test_bye_ends_it():
    assert replies(piped("/bye\nabcabc\n")) == ""


def test_a_drafter_changes_no_token():
    plain = replies(piped("/drafter none\nabcabc\n"))
    done = piped("/drafter ngram\nabcabc\n")
    assert replies(done) == plain and "Drafter: ngram" in done.stderr


def test_a_race_compares_tokens_and_times():
    done = piped("abcabc\n/race\n/race something else\n")
    assert done.stderr.count("identical: 24 of 24 tokens") == 2, done.stderr
    assert len(re.findall(r"^plain +24 tokens in \d+\.\d\d s, \d+\.\d tokens/s$", done.stderr, re.M)) == 2
    assert len(re.findall(r"^auto +24 tokens in .* s, .* tokens/s: \d+\.\d\d times as fast$", done.stderr, re.M)) == 2
    assert "Race with which message?" in piped("/race\n").stderr


def test_a_race_leaves_the_conversation_alone():
    first, both = replies(piped("abcabc\n")), replies(piped("abcabc\nabcabc\n"))
    assert both.startswith(first)
    assert replies(piped("abcabc\n/race\nabcabc\n")) == 3 * first + both[len(first) :]


def test_a_message_that_does_not_fit_is_an_error_in_a_script():
    done = piped("abc" * 40 + "\nabc\n", "--ctx-size", "64")
    assert done.returncode == 1 and "context" in done.stderr


def test_a_reply_ends_where_the_context_does():
    """The default of --max-tokens is above this context."""
    command = [PACELINE, "chat", "--model", "hash", "--chat-template", "chatml", "--ignore-eos", "--ctx-size", "256"]
    done = subprocess.run(command, input="abcabc\nabcabc\n", capture_output=True, text=True, timeout=60, errors="replace")
    assert "where the context ends: use /new, or a larger --ctx-size]" in done.stderr and "-n" not in done.stderr
    assert len(done.stdout) > 5 and done.returncode == 1
    assert "leave no room in the context of 256: use /new, or a larger --ctx-size" in done.stderr, "the second message"


def test_a_model_without_a_template_cannot_chat():
    done = subprocess.run([PACELINE, "chat", "--model", "hash"], input="", capture_output=True, text=True, timeout=60)
    assert done.returncode == 69 and "chat template" in done.stderr


def test_figures_follow_a_reply_with_trace():
    done = piped("abcabc\n", "--trace")
    assert re.search(r"^\[24 tokens, \d+\.\d tokens/s; \d+ drafted, \d+ % of them accepted\]$", done.stderr, re.M), done.stderr
    assert replies(done) == replies(piped("abcabc\n")), "no colours in a pipe"


def test_a_cut_reply_says_so():
    assert "[cut at 24 tokens; -n allows more]" in piped("abcabc\n").stderr


def test_a_terminal_sees_colours_unless_it_wants_none(terminal):
    coloured = terminal("--trace", "--drafter", "bigram")
    assert re.search(r"\x1b\[33m[^\x1b]+\x1b\[0m", coloured.say("abcabcabcabc")), "tokens in the place of rejected ones"
    assert coloured.end() == 0
    bare = terminal("--trace", "--drafter", "bigram", environment={"NO_COLOR": "1"})
    assert "\x1b[33m" not in bare.say("abcabcabcabc")
    assert bare.end() == 0


def test_lines_can_be_edited(terminal):
    chat = terminal()
    typed = chat.say("abcabd")
    chat.say("/new")
    edited = chat.say("xbcabd\x01\x1b[3~a")  # Ctrl-A goes to the beginning, Delete removes the x
    assert edited.split("\r\n", 1)[1] == typed.split("\r\n", 1)[1], "the same message has the same reply"
    assert chat.end() == 0


def test_the_history_is_there_the_next_time_and_for_nobody_else(terminal, tmp_path):
    first = terminal()
    first.say("/system remember me")
    assert first.end() == 0
    kept = tmp_path / ".local/state/paceline/chat_history"
    assert kept.stat().st_mode & 0o777 == 0o600 and "remember" in kept.read_text()
    second = terminal()
    assert "The system prompt is set." in second.say("\x1b[A"), "the arrow key brings the line back"
    assert second.end() == 0


def test_a_file_that_is_no_history_is_left_alone(terminal, tmp_path):
    kept = tmp_path / ".local/state/paceline/chat_history"
    kept.parent.mkdir(parents=True)
    kept.write_text("of another program\n")
    chat = terminal(prompt="what is typed is not kept\r\n")
    chat.wait_for("> ")
    assert "not kept" not in chat.say("/system a secret"), "it is told once"
    assert "The system prompt is set." in chat.say("\x1b[A"), "within the conversation there is a history"
    assert chat.end() == 0
    assert kept.read_text() == "of another program\n"


def test_two_chats_keep_the_history_of_both(terminal, tmp_path):
    first, second = terminal(), terminal()
    first.say("/system one")
    second.say("/system two")
    first.say("/system three")
    assert first.end() == second.end() == 0
    kept = (tmp_path / ".local/state/paceline/chat_history").read_text()
    assert re.findall(r"one|two|three", kept) == ["one", "two", "three"]


def test_no_history_is_kept_if_it_is_not_wanted(terminal, tmp_path):
    chat = terminal("--no-history")
    chat.say("/system a secret")
    assert "The system prompt is set." in chat.say("\x1b[A"), "within the conversation there is one"
    assert chat.end() == 0
    assert not (tmp_path / ".local").exists()


def test_keys_are_read_one_by_one_as_soon_as_there_is_a_prompt(terminal):
    chat = terminal()
    for _ in range(100):
        assert not termios.tcgetattr(chat.master)[3] & termios.ICANON, "a Ctrl-D typed now would be lost"
        chat.say("/new")
    assert chat.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_at_the_prompt_leaves_the_terminal_as_before(number, tmp_path):
    """The terminal is not the process's own one, and stays open: otherwise the system would reset its modes."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)

    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP is ignored

    process = subprocess.Popen([PACELINE, "chat", *MODEL, "--no-history"], stdin=slave, stdout=slave, stderr=slave, preexec_fn=prepare,
                               env=os.environ | {"TERM": "xterm"})
    try:
        seen = b""
        while b"> " not in seen:
            seen += os.read(master, 65536)
        assert not termios.tcgetattr(slave)[3] & termios.ECHO
        process.send_signal(number)
        assert process.wait(timeout=30) == -number, "the caller sees the signal"
        assert termios.tcgetattr(slave) == before
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)


def test_the_prompt_is_drawn_again_after_a_stop(terminal):
    chat = terminal()
    during = termios.tcgetattr(chat.master)
    chat.type("/sys")
    chat.wait_for("/sys")
    chat.process.send_signal(signal.SIGSTOP)
    os.waitpid(chat.process.pid, os.WUNTRACED)
    modes = termios.tcgetattr(chat.master)
    modes[3] |= termios.ICANON | termios.ECHO  # what a shell does
    termios.tcsetattr(chat.master, termios.TCSANOW, modes)
    chat.process.send_signal(signal.SIGCONT)
    chat.wait_for("> /sys")
    assert termios.tcgetattr(chat.master) == during
    assert "The system prompt is set." in chat.say("tem x")
    assert chat.end() == 0


def test_an_interrupt_at_the_prompt_drops_the_line(terminal):
    chat = terminal()
    chat.type("half a mess")
    chat.type("\x03")
    assert "Ctrl-D or /bye" in chat.wait_for("\n> ")
    assert "The system prompt is set." in chat.say("/system x")
    chat.type('"""\n')
    chat.wait_for("... ")
    chat.type("\x03")
    chat.wait_for("\n> ")
    assert "The system prompt is set." in chat.say("/system y"), "the incomplete message is gone"
    assert chat.end() == 0


def test_an_interrupt_among_arriving_keys_drops_the_line_and_no_more(terminal):
    """The terminal drops what was typed while the program is about to read it."""
    chat = terminal()
    for _ in range(3000):
        chat.type("half a mess")
        chat.type("\x03")
        assert "Ctrl-D or /bye" in chat.wait_for("\n> ")
    assert chat.end() == 0


def waits_for_a_lock(process):
    locks = pathlib.Path("/proc/locks").read_text()
    return re.search(rf"-> FLOCK .* {process.pid} ", locks) is not None


def test_an_interrupt_between_a_line_and_its_reply_keeps_the_conversation(terminal, tmp_path):
    """The process is held where it writes the history. Only a prompt and a reply had a handler once."""
    chat = terminal()
    chat.say("/system x")
    with open(tmp_path / ".local/state/paceline/chat_history") as history:
        fcntl.flock(history, fcntl.LOCK_EX)
        chat.type("abcabc\n")
        end = time.monotonic() + 30
        while not waits_for_a_lock(chat.process):
            assert time.monotonic() < end
        chat.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        assert chat.process.poll() is None
    chat.wait_for("\n> ")
    assert "The system prompt is set." in chat.say("/system y")
    assert chat.end() == 0


@pytest.mark.parametrize("has_terminal", [False, True])
def test_an_interrupt_at_a_plain_prompt_keeps_the_conversation(has_terminal, tmp_path):
    """Plain lines are read from a pipe, and from a terminal if messages go to a file."""
    keys, lines = pty.openpty() if has_terminal else reversed(os.pipe())
    told = tmp_path / "told"
    with open(told, "wb") as messages:
        process = subprocess.Popen([PACELINE, "chat", *MODEL], stdin=lines, stdout=subprocess.PIPE, stderr=messages)
    os.close(lines)

    def wait_for(number_of_prompts):
        end = time.monotonic() + 60
        while told.read_bytes().count(b"> ") < number_of_prompts:
            assert process.poll() is None and time.monotonic() < end, told.read_bytes()
            time.sleep(0.01)

    wait_for(1)
    process.send_signal(signal.SIGINT)
    wait_for(2)
    assert b"Ctrl-D or /bye" in told.read_bytes()
    os.write(keys, b"abcabc\n")
    wait_for(3)
    os.write(keys, b"/bye\n")
    assert len(process.communicate(timeout=60)[0]) > 5 and process.returncode == 0
    os.close(keys)


def test_an_error_does_not_end_a_conversation_at_a_terminal(terminal):
    chat = terminal("--ctx-size", "64")
    assert "context" in chat.say("abc" * 40)
    assert "A new conversation." in chat.say("/new")
    assert chat.end() == 0


def test_characters_of_several_bytes_are_edited_whole(terminal):
    chat = terminal()
    assert "There is no drafter ä!." in chat.say("/drafter ä€x\x7f\x7f!")
    assert chat.end() == 0
