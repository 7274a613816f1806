import stable_baselines3 as sb


def _run(kind, name="CartPole-v1", **options):
    model = kind("MlpPolicy", name, seed=0, device="cpu", **options)
    model.learn(64)
    return [each for each in model.policy.parameters()]


def ppo():
    return _run(sb.PPO, n_steps=32, batch_size=16, n_epochs=2)


def a2c():
    return _run(sb.A2C)


def dqn():
    return _run(sb.DQN, learning_starts=16, buffer_size=100)


def sac():
    return _run(sb.SAC, "Pendulum-v1", learning_starts=48, buffer_size=100)


def td3():
    return _run(sb.TD3, "Pendulum-v1", learning_starts=48, buffer_size=100)
